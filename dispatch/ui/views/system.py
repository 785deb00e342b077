"""`/system`: our own processes, who dispatches, the database."""

from django.http import HttpRequest, HttpResponse

from dispatch.services import system as services
from dispatch.ui import pages


@pages.page
def system(request: HttpRequest) -> HttpResponse:
    """Pulses, leaders and sizes."""
    return pages.show(request, "ui/system.html", **services.system(pages.person(request)))
