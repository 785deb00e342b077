"""`/capabilities`: which sets of capabilities tasks need, and which workers could run them; the scarce ones first."""

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages


@pages.page
def capabilities(request: HttpRequest) -> HttpResponse:
    """The answer in a sentence, then one row per set; both stay live."""
    return pages.show(request, "ui/capabilities.html", "capabilities")
