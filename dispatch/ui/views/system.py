"""`/system`: our own processes, who dispatches, the database; pause everything."""

from django.http import HttpRequest, HttpResponse

from dispatch.live import topics
from dispatch.ui import pages
from dispatch.ui.views.queue import ENDS


@pages.page
def system(request: HttpRequest) -> HttpResponse:
    """Pulses, leaders and sizes, kept live; the form that stops or resumes all pools."""
    found = topics.own(pages.person(request), pages.topic(request, "system"))
    paused = [row["pool"] for row in found["leaders"] if row["paused"]]
    return pages.show(request, "ui/system.html", "system", paused=paused, ends=ENDS.items())
