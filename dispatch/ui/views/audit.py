"""`/audit`: who did what to what, and why; newest first."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from dispatch.live import words
from dispatch.services import audit
from dispatch.ui import pages

PAGE = 100
LONGEST = 80  #: characters of a value in the list
KNOWN = ("version", "created_at", "updated_at", "slug")  #: said by the entry itself


@pages.page
def entries(request: HttpRequest) -> HttpResponse:
    """One page of the audit."""
    page = audit.list_audit(pages.caller(request), PAGE, request.GET.get("after") or None)
    older = f"/audit?{urlencode({'after': page.next_cursor})}" if page.next_cursor else ""
    rows = [row | {"changes": changes(row["before"], row["after"])} for row in page.items]
    return pages.show(request, "ui/audit.html", rows=rows, older=older)


def changes(before: Any, after: Any) -> list[tuple[str, str, str]]:
    """Name, old and new value of what an entry changed."""
    old, new = before if isinstance(before, Mapping) else {}, after if isinstance(after, Mapping) else {}
    names = [name for name in new if name not in KNOWN and old.get(name) != new[name]]
    return [(name, short(old.get(name)) if old else "", short(new[name])) for name in names]


def short(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        text = ", ".join(value)
    elif isinstance(value, float):
        text = words.weight(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "–" if value is None else text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
