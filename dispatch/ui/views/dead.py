"""`/dead`: groups of dead letters by fingerprint, or classes by age; `/dead/<fingerprint>`: one group and its triage.

Rows are acted on together: requeue and discard become a dry run on `/bulk/<id>`, the other verbs are decisions about
the groups (services/triage.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dispatch import errors
from dispatch.live import snapshots, words
from dispatch.live.cells import groups as cells
from dispatch.live.cells import tasks as rows
from dispatch.services import bulk, tasks, triage
from dispatch.services.messages import Caller
from dispatch.ui import once, pages
from dispatch.ui.views.tasks import PAGE, colours

VIEWS = (("groups", "Groups"), ("ages", "Class by age"))
SHOW = (("open", "Open"), ("settled", "Resolved and ignored"), ("all", "All"))
SHARED_S = 1.0  #: seconds
BULK = {"requeue": "Requeue", "discard": "Discard"}


@pages.page
def dead(request: HttpRequest) -> HttpResponse:
    """Both views; `?view=` and `?show=` choose."""
    if fingerprint := request.GET.get("fingerprint"):
        return redirect(f"/dead/{fingerprint}")
    version = cells.version(pages.numbers(request))
    found, marks = groups(pages.caller(request), version), colours(request)
    view = _chosen(request, "view", VIEWS)
    show = _chosen(request, "show", SHOW)
    kept = [one for one in found["groups"] if show == "all" or one["open"] == (show == "open")]
    context: dict[str, Any] = {
        "found": found,
        "summary": cells.summary(found),
        "view": view,
        "shows": [(word, address(request, show=name), name == show) for name, word in SHOW],
        "segments": [(word, address(request, view=name), name == view) for name, word in VIEWS],
        "rows": [cells.row(one, marks) for one in kept],
        "hidden": len(found["groups"]) - len(kept),
        "matrix": cells.matrix(found["matrix"], marks),
        "ages": triage.AGES,
        "version": version,
        "once": once.token(),
        "may_requeue": pages.may(request, "operate"),
    }
    return pages.show(request, "ui/dead.html", "dead", **context)


def groups(caller: Caller, version: str) -> dict[str, Any]:
    """The groups as all viewers with the same rights see them, at most SHARED_S old and never older than `version`.

    So a page that many watch costs one reading, and a page that follows a change shows it.
    """
    key = ("dead groups", version, snapshots.audience(caller, None))
    return snapshots.shared(key, SHARED_S, lambda: triage.groups(caller))


@pages.page
def group(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """One group: what it is, since when, whom it hits, with which agents, and its tasks."""
    caller = pages.caller(request)
    found = triage.group(caller, fingerprint)
    filters = {"fingerprint": fingerprint, "state": "dead", "order": "-finished_at"}
    page = tasks.list_tasks(caller, filters, PAGE, request.GET.get("after") or None)
    context: dict[str, Any] = {
        "group": cells.row(found, colours(request)),
        "detail": cells.detail(found, triage.versions(item["id"] for item in page.items)),
        "rows": rows.rows(page.items, colours(request)),
        "older": f"/dead/{fingerprint}?{urlencode({'after': page.next_cursor})}" if page.next_cursor else "",
        "people": _people(request),
        "version": cells.version(pages.numbers(request)),
        "once": once.token(),
        "may_requeue": pages.may(request, "operate"),
    }
    return pages.show(request, "ui/deadgroup.html", "dead", **context)


@require_POST
@login_required
def act(request: HttpRequest) -> HttpResponse:
    """What was chosen for the ticked groups."""
    names = list(dict.fromkeys(request.POST.getlist("group")))
    verb = request.POST.get("verb", "")
    back = request.POST.get("back", "/dead")
    back = back if back.startswith("/dead") else "/dead"
    return once.run(request, lambda: _act(request, verb, names, back), back)


@require_POST
@login_required
def decide(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """Save the triage of one group."""
    back = f"/dead/{fingerprint}"

    def save() -> tuple[str, str]:
        version = request.POST.get("version", "")
        changes = _changes(request.POST)
        triage.decide(pages.caller(request), fingerprint, changes, int(version) if version.isdecimal() else None)
        return back, "Saved the triage of this group"

    return once.run(request, save, back)


def _act(request: HttpRequest, verb: str, names: Sequence[str], back: str) -> tuple[str, str]:
    if not names:
        raise errors.Invalid(("group", "Tick at least one group."))
    caller = pages.caller(request)
    if verb in BULK:
        filters = {"fingerprint": ",".join(names), "state": "dead"}
        job = bulk.create(caller, verb, filters, "", dry_run=True)
        return f"/bulk/{job['id']}", ""
    changes = {
        "resolve": {"status": "resolved"},
        "ignore": {"status": "ignored"},
        "reopen": {"status": "open"},
        "assign": {"assignee": caller.name},
    }.get(verb)
    if changes is None:
        raise errors.Invalid(("verb", "There is no such command."))
    for name in names:
        triage.decide(caller, name, changes)
    done = {"resolve": "resolved", "ignore": "ignored", "reopen": "reopened", "assign": "assigned to you"}[verb]
    return back, f"{words.plural(len(names), 'group')} {done}"


def _changes(form: Mapping[str, str]) -> dict[str, Any]:
    changes: dict[str, Any] = {name: form.get(name, "").strip() for name in ("status", "assignee", "note")}
    for name, make in (("ignore_above_per_h", float), ("ignore_above_total", int)):
        text = form.get(name, "").strip().replace(",", ".")
        try:
            changes[name] = make(text) if text else None
        except ValueError:
            raise errors.Invalid((name, "Type a number, or leave it empty.")) from None
    return changes


def _people(request: HttpRequest) -> list[str]:
    try:
        return triage.people(pages.caller(request))
    except errors.Forbidden:
        return []


def _chosen(request: HttpRequest, name: str, known: Sequence[tuple[str, str]]) -> str:
    asked = request.GET.get(name, "")
    return asked if asked in dict(known) else known[0][0]


def address(request: HttpRequest, **changes: str) -> str:
    """The page's own address with some of its parameters changed."""
    query = request.GET.copy()
    query.pop("after", None)
    for name, value in changes.items():
        query[name] = value
    return f"{request.path}?{query.urlencode()}"
