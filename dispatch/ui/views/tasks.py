"""`/tasks`: the filtered list, and `/tasks/<id>`: one task, why it waits, its history; cancel, requeue, revoke."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from dispatch import downloads, errors
from dispatch.live import words
from dispatch.live.cells import gates, palette, taskpage, timeline
from dispatch.live.cells import tasks as rows
from dispatch.services import cancel as cancelling
from dispatch.services import checkpoint, clock, edit_task, explain, saved_views, task_search, tasks
from dispatch.services import requeue as requeueing
from dispatch.services import revoke as revoking
from dispatch.ui import once, pages, search

PAGE = 100
#: verb → what it changes; 100 is the highest priority inside a queue
EDITS: Mapping[str, Mapping[str, Any]] = {"hold": {"held": True}, "let-go": {"held": False}, "raise": {"priority": 100}}
EXAMPLE = (("tenant", "tenants", "sales"), ("class", "classes", "interactive"))  #: names of the first task shown
MOST_WORDS = 200  #: values of one name that the search line offers
HEAD = (
    *("id", "state", "type", "class", "tenant", "user", "priority", "attempts", "attempts_allowed", "worker"),
    *("created_at", "queued_at", "finished_at", "reason", "fingerprint", "error"),
)
TABS = [
    ("All", ""),
    ("Queued", "queued"),
    ("Running", "leased"),
    ("Scheduled", "scheduled"),
    ("Held", "held"),
    ("Done", "succeeded"),
    ("Dead", "dead"),
    ("Cancelled", "cancelled"),
]


@pages.page
def task_list(request: HttpRequest) -> HttpResponse:
    """One page of tasks; the search line, its chips and the tabs make the same filters as the API's."""
    text = request.GET.get("q", "").strip()
    if (number := search.task_number(text)) is not None:
        return redirect(f"/tasks/{number}")
    filters = search.parse(text)
    problem, found, up = "", task_search.Found([]), bool(request.GET.get("before"))
    try:
        found = task_search.search(pages.caller(request), filters, PAGE, cursor_of(request), up=up)
    except errors.Invalid as error:
        problem = refused(error)
    shared = pages.numbers(request)
    context: dict[str, Any] = {
        "search": text,
        "filters": [(*search.label(name, value), link(without(filters, name))) for name, value in filters.items()],
        "tabs_state": tabs(filters, shared),
        "rows": rows.rows(found.items, colours(request)),
        "problem": problem,
        "older": link(filters, found.older) if found.older else "",
        "newer": link(filters, found.newer, "before") if found.newer else "",
        "looked_to": found.looked_to,
        "first": not cursor_of(request),
        "query": urlencode({"q": text}),
        "known": known(shared),
        "saved": [view | {"href": f"/tasks?{urlencode({'q': view['query']})}"} for view in _views(request)],
        "tenants": [row["slug"] for row in shared["tenants"]],
        "ready": ready(shared),
        "example": {kind: (shared[many] or [{"slug": slug}])[0]["slug"] for kind, many, slug in EXAMPLE},
        "once": once.token(),
        "may_act": pages.may(request, "submit", "operate"),
        "may_requeue": pages.may(request, "operate"),
    }
    return pages.show(request, "ui/tasks.html", **context)


@require_safe
@login_required
def count(request: HttpRequest) -> HttpResponse:
    """How many tasks a search line finds, in words; asked for after the list itself is shown."""
    try:
        number, whole = task_search.count(pages.caller(request), search.parse(request.GET.get("q", "").strip()))
    except errors.EvenflowError:
        return HttpResponse("")
    if number >= task_search.COUNTED:
        return HttpResponse("≥ 10k match")
    return HttpResponse(f"{'' if whole else '≥ '}{words.count(number)} {'matches' if number == 1 else 'match'}")


@require_safe
@login_required
def download(request: HttpRequest) -> HttpResponseBase:
    """The found tasks as CSV, at most 100,000 rows."""
    try:
        found = task_search.rows(pages.caller(request), search.parse(request.GET.get("q", "").strip()))
    except errors.EvenflowError as error:
        return pages.failure(request, error)
    return downloads.sheet(request, "tasks.csv", HEAD, (line(item) for item in found))


@require_POST
@login_required
def save_view(request: HttpRequest) -> HttpResponse:
    """Keep the search line of this page under a name."""
    form = request.POST
    back = f"/tasks?{urlencode({'q': form.get('q', '')})}"

    def save() -> tuple[str, str]:
        given = (form.get("name", "").strip(), form.get("q", "").strip(), form.get("audience", "private"))
        saved = saved_views.save_view(pages.caller(request), *given, form.get("tenant", ""))
        return back, f"View {saved['name']} saved"

    return once.run(request, save, back)


@require_POST
@login_required
def delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    """Remove a saved view."""
    back = "/tasks"
    return once.run(
        request, lambda: (back, f"View {saved_views.delete_view(pages.caller(request), view_id)} removed"), back
    )


@pages.page
def task(request: HttpRequest, task_id: int) -> HttpResponse:
    """One task: what it waits for or how it went, its attempts, its payload."""
    caller = pages.caller(request)
    found, pulse = tasks.get_task(caller, task_id), tasks.pulse(caller, task_id)
    context = rows.detail(found, colours(request))
    if found["state"] in rows.WAITING:
        why = explain.why(caller, task_id)
        context |= rows.why(why, context["answer"])
        context["why"]["passes"] = gates.passes(found, pages.numbers(request), why["blockers"])
    journal = checkpoint.journal(caller, task_id)
    now = clock.now()
    attempts = timeline.attempts(found, now)
    context |= {
        "version": taskpage.version(pulse),
        "journal": [entry | {"cut": entry["length"] > len(entry["text"])} for entry in journal or []],
        "attempts": attempts[::-1],
        "timeline": timeline.draw(found, attempts, now),
        "picks": tasks.picks(caller, task_id),
        "may_cancel": context["may_cancel"] and pages.may(request, "submit", "operate"),
        "may_edit": found["state"] in rows.WAITING and pages.may(request, "submit", "operate"),
        "payload": None if found.get("payload_hidden") else _pretty(found["payload"]),
        "result": None if found["result"] is None else _pretty(found["result"]),
        "once": once.token(),
    }
    return pages.show(request, "ui/task.html", f"task:{task_id}", **context)


@require_POST
@login_required
def edit(request: HttpRequest, task_id: int, verb: str) -> HttpResponse:
    """Raise a waiting task once inside its queue, set it aside, or let it go again."""
    changes = EDITS.get(verb)
    done = {"hold": "held", "let-go": "let go", "raise": "raised to the front of its queue"}.get(verb, "")

    def act() -> tuple[str, str]:
        if changes is None:
            raise errors.NotFound("There is no such command.")
        edit_task.edit_task(pages.caller(request), task_id, changes, request.POST.get("reason", "").strip())
        return f"/tasks/{task_id}", f"Task {words.count(task_id)} {done}"

    return once.run(request, act, f"/tasks/{task_id}")


@pages.command
def requeue(request: HttpRequest, task_id: int) -> pages.Told:
    """A dead letter gets a fresh life."""
    requeueing.requeue(pages.caller(request), task_id, request.POST.get("reason", ""))
    return f"Task {words.count(task_id)} requeued", {"link": {"href": f"/tasks/{task_id}", "word": "Follow"}}


@pages.command
def cancel(request: HttpRequest, task_id: int) -> pages.Told:
    """A waiting task ends, a running one is asked to."""
    answer = cancelling.cancel(pages.caller(request), task_id, request.POST.get("reason", ""))
    asked = answer.get("cancel_requested")
    return f"Task {words.count(task_id)} " + ("hears of it at its next heartbeat" if asked else "cancelled"), {}


@pages.command
def revoke(request: HttpRequest, task_id: int) -> pages.Told:
    """A lease is taken back; the task is queued again in its place."""
    answer = revoking.revoke(pages.caller(request), task_id, request.POST.get("reason", "").strip())
    return f"Lease of task {words.count(task_id)} revoked, the task is {answer['state']}", {}


def cursor_of(request: HttpRequest) -> str | None:
    """Where the page begins; None for the newest."""
    return request.GET.get("before") or request.GET.get("after") or None


def link(filters: dict[str, str], cursor: str | None = None, side: str = "after") -> str:
    """The address of the list with these filters."""
    text = search.write(filters)
    query = urlencode([pair for pair in (("q", text), (side, cursor or "")) if pair[1]])
    return f"/tasks?{query}" if query else "/tasks"


def without(filters: dict[str, str], name: str) -> dict[str, str]:
    """The filters but one."""
    return {key: value for key, value in filters.items() if key != name}


def tabs(filters: dict[str, str], shared: Mapping[str, Any]) -> list[tuple[str, str, bool, str]]:
    """Name, address, whether it is the chosen one, and how many; the numbers are known without other filters only."""
    rest = without(filters, "state")
    totals = shared["totals"]
    numbers = {
        "queued": totals["queued"],
        "leased": totals["running"],
        "scheduled": totals["scheduled"],
        "held": totals["held"],
        "dead": shared["dead"]["total"],
    }
    return [
        (
            name,
            link(rest | ({"state": state} if state else {})),
            filters.get("state", "") == state,
            words.count(numbers[state]) if state in numbers and not rest else "",
        )
        for name, state in TABS
    ]


def ready(shared: Mapping[str, Any]) -> list[tuple[bool, str, str]]:
    """What is in place before the first task: whether it is, what, in numbers."""
    classes, tenants, totals = len(shared["classes"]), len(shared["tenants"]), shared["totals"]
    live = totals["workers_live"]
    policy = f"{words.plural(classes, 'class', 'classes')}, {words.plural(tenants, 'tenant')}"
    free = f"{words.count(live)} live, {words.plural(totals['free'], 'slot')} free"
    return [
        (
            bool(classes and tenants),
            f"Pool {shared['pool']}{' is ready' if classes and tenants else ' needs both'}",
            policy,
        ),
        (
            live > 0,
            "Workers are waiting" if live else "No worker yet",
            free if live else "agents appear when they register",
        ),
        (False, "First task", "none submitted yet"),
    ]


def known(shared: Mapping[str, Any]) -> str:
    """The words that the search line offers while one types, as JSON: names with their meaning, and known values."""
    values = {
        "state": [state for _, state in TABS if state],
        "class": [row["slug"] for row in shared["classes"]],
        "tenant": [row["slug"] for row in shared["tenants"]],
        "worker": [row["name"] for row in shared["workers"]][:MOST_WORDS],
        "cap": sorted({name for row in shared["workers"] for name in row["capabilities"]})[:MOST_WORDS],
    }
    return json.dumps({"names": search.HELP, "values": values})


def refused(error: errors.Invalid) -> str:
    """What is wrong with the search line, and what to type instead."""
    unknown = [one["field"] for one in error.errors if one["message"].startswith("is not a filter")]
    rest = [f"{one['field']}: {one['message']}" for one in error.errors if one["field"] not in unknown]
    return " ".join([*([search.advice(unknown)] if unknown else []), *rest])


def line(item: Mapping[str, Any]) -> list[Any]:
    """One task of a download, in the order of HEAD."""
    error = item["error"]
    message = error.get("message", "") if isinstance(error, Mapping) else error
    names = ("id", "state", "type", "class", "tenant", "user", "priority", "attempts", "attempts_allowed", "worker")
    times = ("created_at", "queued_at", "finished_at", "reason", "fingerprint")
    return [*(item[name] for name in names), *(item[name] for name in times), message]


def _views(request: HttpRequest) -> list[dict[str, Any]]:
    return saved_views.list_views(pages.person(request))


def colours(request: HttpRequest) -> dict[str, str]:
    """The mark colours of the classes that this person sees."""
    return palette.palette(row["slug"] for row in pages.numbers(request)["classes"])


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
