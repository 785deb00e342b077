"""`/`: is anyone starving?"""

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages


@pages.page
def overview(request: HttpRequest) -> HttpResponse:
    """Answer line, tiles, fairness, tenants, dead letters, workers, commands."""
    return pages.show(request, "ui/overview.html", "overview")
