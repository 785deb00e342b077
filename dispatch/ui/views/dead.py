"""`/dead`: dead letters, newest first, with requeue."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from dispatch.live.cells import tasks as rows
from dispatch.services import tasks
from dispatch.ui import pages
from dispatch.ui.views.tasks import PAGE, colours


@pages.page
def dead(request: HttpRequest) -> HttpResponse:
    """The list; `?class=`, `?tenant=` and `?fingerprint=` narrow it."""
    narrow = {name: value for name in ("class", "tenant", "fingerprint") if (value := request.GET.get(name))}
    filters = {"state": "dead", "order": "-finished_at"} | narrow
    page = tasks.list_tasks(pages.caller(request), filters, PAGE, request.GET.get("after") or None)
    query = request.GET.copy()
    query["after"] = page.next_cursor or ""
    context: dict[str, Any] = {
        "rows": rows.rows(page.items, colours(request)),
        "narrow": narrow,
        "older": f"/dead?{query.urlencode()}" if page.next_cursor else "",
    }
    return pages.show(request, "ui/dead.html", "dead", **context)
