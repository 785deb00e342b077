"""`/workers`: the fleet, those that need a hand first."""

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages


@pages.page
def workers(request: HttpRequest) -> HttpResponse:
    """Slots by class in one strip, then one row per worker."""
    return pages.show(request, "ui/workers.html", "workers")
