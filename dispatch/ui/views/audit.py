"""`/audit`: who did what to what, and why; newest first. `/audit.csv`: the same as a sheet."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from dispatch import downloads, errors
from dispatch.live import words
from dispatch.services import audit
from dispatch.ui import pages

PAGE = 50  #: so that the page stays small
#: of `audit.export`, without the request
HEAD = ("id", "at", "actor_kind", "actor", "action", "target_kind", "target", "outcome", "reason", "before", "after")
LONGEST = 80  #: characters of a value in the list
KNOWN = ("version", "created_at", "updated_at", "slug")  #: said by the entry itself


@pages.page
def entries(request: HttpRequest) -> HttpResponse:
    """One page of the audit; every column can be narrowed, in the address."""
    filters = _filters(request)
    page = audit.list_audit(pages.caller(request), PAGE, request.GET.get("after") or None, filters)
    query = request.GET.copy()
    query["after"] = page.next_cursor or ""
    context: dict[str, Any] = {
        "rows": [row | {"changes": changes(row["before"], row["after"])} for row in page.items],
        "older": f"/audit?{query.urlencode()}" if page.next_cursor else "",
        "filters": filters,
        "csv": f"/audit.csv?{urlencode(filters)}",
        "first": not request.GET.get("after"),
    }
    return pages.show(request, "ui/audit.html", "audit", **context)


@require_safe
@login_required
def download(request: HttpRequest) -> HttpResponseBase:
    """All entries that fit the filters as CSV, newest first, streamed."""
    try:
        rows = audit.export(pages.caller(request), _filters(request))  # refusals come before the first byte
    except errors.EvenflowError as error:
        return pages.failure(request, error)
    lines = ([*row[:7], "refused" if row[7] else "done", *row[8 : len(HEAD)]] for row in rows)
    return downloads.sheet(request, "audit.csv", HEAD, lines)


def _filters(request: HttpRequest) -> dict[str, str]:
    asked = {name: request.GET.get(name, "").replace("\0", "").strip()[:200] for name in audit.FILTERS}
    return {name: value for name, value in asked.items() if value}


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
