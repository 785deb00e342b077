"""`/`: is anyone starving?"""

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages
from dispatch.ui.views.queue import series, spans


@pages.page
def overview(request: HttpRequest) -> HttpResponse:
    """Answer line, tiles, fairness, tenants, dead letters, workers, commands."""
    context = {"series": series(request, {}), "spans": spans(request)}
    return pages.show(request, "ui/overview.html", "overview", **context)
