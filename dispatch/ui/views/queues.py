"""`/queues`: the oldest wait of every class × tenant against its SLO, and the queues with work."""

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages


@pages.page
def queues(request: HttpRequest) -> HttpResponse:
    """Grid and table."""
    return pages.show(request, "ui/queues.html", "queues")
