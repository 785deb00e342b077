"""`/queues`: the oldest wait of every class × tenant against its SLO, and the queues with work, grouped as asked."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from dispatch.ui import pages

BY = (("queue", "Queue"), ("class", "Class"), ("tenant", "Tenant"), ("user", "User"), ("tool", "Tool"))
ONLY = (("", "All"), ("trouble", "Need a hand"))
VIEWS = (("", "Grid and table"), ("table", "Table"))


@pages.page
def queues(request: HttpRequest) -> HttpResponse:
    """Grid and table; `?by=`, `?only=` and `?view=` choose what they show."""
    chosen = {"by": request.GET.get("by", "queue"), "only": request.GET.get("only", "")}
    by = chosen["by"] if chosen["by"] in dict(BY) else "queue"
    only = chosen["only"] if chosen["only"] in dict(ONLY) else ""
    view = "table" if request.GET.get("view") == "table" else ""
    context: dict[str, Any] = {
        "by": by,
        "heading": dict(BY)[by],
        "grid": not view,
        "segments": [
            ("Group by", _links(request, "by", BY, by)),
            ("Show", _links(request, "only", ONLY, only)),
            ("View", _links(request, "view", VIEWS, view)),
        ],
    }
    return pages.show(request, "ui/queues.html", f"queues:{by}.{only}".rstrip("."), **context)


def _links(
    request: HttpRequest, name: str, choices: tuple[tuple[str, str], ...], here: str
) -> list[tuple[str, str, bool]]:
    found = []
    for value, word in choices:
        query = request.GET.copy()
        query[name] = value
        if not value or (name, value) == ("by", "queue"):
            del query[name]
        found.append((word, f"/queues?{query.urlencode()}".rstrip("?"), value == here))
    return found
