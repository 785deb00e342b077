"""`/palette?q=…`: what the command palette offers for a few typed letters, as JSON.

Pages, one task by its number, workers, tenants, classes and commands, as far as this person may know of them. A command
is a link to the form that carries it out, with its consequence and its reason: nothing happens in the palette itself.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from dispatch import errors
from dispatch.live.cells.workers import STATES
from dispatch.ui import pages, search

MOST = 12  #: entries of an answer
LONGEST = 200  #: characters looked at
Entry = dict[str, Any]


@require_safe
@login_required
def palette(request: HttpRequest) -> HttpResponse:
    """Entries whose name holds the typed text, those that begin with it first."""
    typed = request.GET.get("q", "")[:LONGEST].strip()
    try:
        found = list(_all(request, typed))
    except errors.EvenflowError as error:
        return JsonResponse({"detail": error.detail}, status=error.status)
    low = typed.lower()
    fits = [entry for entry in found if low in entry["text"].lower()]
    fits.sort(key=lambda entry: not entry["text"].lower().startswith(low))
    entries = [*_task(typed), *fits[:MOST], *_search(typed)]
    return JsonResponse({"entries": entries}, headers={"Cache-Control": "no-store"})


def _task(typed: str) -> Iterator[Entry]:
    if (number := search.task_number(typed)) is not None:
        yield _entry("tasks", f"Task {number:,}", "open", f"/tasks/{number}")


def _search(typed: str) -> Iterator[Entry]:
    if typed:
        yield _entry("search", f"Search tasks for {typed}", "", f"/tasks?{urlencode({'q': typed})}")


def _all(request: HttpRequest, typed: str) -> Iterator[Entry]:
    shared = pages.numbers(request)
    keep = pages.frame_links(request.path, request)["keep"]
    for _, entries in pages.NAVIGATION:
        for name, href, icon, _ in entries:
            yield _entry(icon, name, "page", href + keep)
    if not typed:
        yield from _commands(request)
        return
    for row in shared["workers"]:
        icon, tone = STATES.get(row["state"], ("none", "idle"))
        yield _entry("workers", row["name"], row["state"], f"/workers/{row['id']}") | {"state": icon, "tone": tone}
    for row in shared["classes"]:
        yield _entry("queues", row["slug"], f"class · {row['queued']:,} queued", f"/queues/{quote(row['slug'])}{keep}")
    for row in shared["tenants"]:
        address = f"/?{urlencode({'tenant': row['slug']})}"
        yield _entry("people", row["slug"], f"tenant · {row['queued']:,} queued", address)
    yield from _commands(request)
    if pages.may(request, "operate"):
        yield from _steering(shared)


def _commands(request: HttpRequest) -> Iterator[Entry]:
    """What the browser does by itself, and what stops everything."""
    for act, text, icon in (
        ("pause", "Pause or resume updates", "pause"),
        ("zone", "Switch times between UTC and local", "queued"),
        ("theme", "Change the theme", "sun"),
        ("keys", "Show the shortcuts", "key"),
    ):
        yield _entry(icon, text, "command", "") | {"act": act}
    if "operate" in pages.person(request).scopes:
        yield _entry("pause", "Pause all dispatch", "command", "/system#pause-all")


def _steering(shared: Any) -> Iterator[Entry]:
    for row in shared["workers"]:
        yield _entry("draining", f"Drain {row['name']}", "command", f"/workers/{row['id']}#act")
    for row in shared["classes"]:
        slug = quote(row["slug"])
        yield _entry("edit", f"Edit weights of {row['slug']}", "command", f"/fairness/class/{slug}#editor")
        yield _entry("pause", f"Pause class {row['slug']}", "command", f"/queues/{slug}#pause")
    for row in shared["tenants"]:
        yield _entry(
            "edit", f"Edit weights of {row['slug']}", "command", f"/fairness/tenant/{quote(row['slug'])}#editor"
        )


def _entry(icon: str, text: str, note: str, href: str) -> Entry:
    return {"icon": icon, "text": text, "note": note, "href": href}
