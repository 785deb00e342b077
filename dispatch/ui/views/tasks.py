"""`/tasks`: the filtered list, and `/tasks/<id>`: one task, why it waits, its history; cancel, requeue, revoke."""

import json
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dispatch import errors
from dispatch.live import words
from dispatch.live.cells import palette
from dispatch.live.cells import tasks as rows
from dispatch.services import cancel as cancelling
from dispatch.services import checkpoint, explain, tasks
from dispatch.services import requeue as requeueing
from dispatch.services import revoke as revoking
from dispatch.ui import pages, search

PAGE = 100
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
    """One page of tasks; the search line and the tabs make the same filters as the API's."""
    text = request.GET.get("q", "").strip()
    if (number := search.task_number(text)) is not None:
        return redirect(f"/tasks/{number}")
    filters = search.parse(text)
    problem, page = "", None
    try:
        page = tasks.list_tasks(pages.caller(request), filters, PAGE, request.GET.get("after") or None)
    except errors.Invalid as error:
        problem = error.detail
    items = page.items if page else []
    context: dict[str, Any] = {
        "search": text,
        "filters": [(name, value, link(without(filters, name))) for name, value in filters.items()],
        "tabs_state": tabs(filters),
        "rows": rows.rows(items, colours(request)),
        "problem": problem,
        "older": link(filters, page.next_cursor) if page and page.next_cursor else "",
        "first": not request.GET.get("after"),
    }
    return pages.show(request, "ui/tasks.html", **context)


@pages.page
def task(request: HttpRequest, task_id: int) -> HttpResponse:
    """One task: what it waits for or how it went, its attempts, its payload."""
    caller = pages.caller(request)
    found = tasks.get_task(caller, task_id)
    context = rows.detail(found, colours(request))
    if found["state"] in rows.WAITING:
        context |= rows.why(explain.why(caller, task_id), context["answer"])
    journal = checkpoint.journal(caller, task_id)
    context["journal"] = [entry | {"cut": entry["length"] > len(entry["text"])} for entry in journal or []]
    context["may_cancel"] = context["may_cancel"] and pages.may(request, "submit", "operate")
    context["payload"] = None if found.get("payload_hidden") else _pretty(found["payload"])
    context["result"] = None if found["result"] is None else _pretty(found["result"])
    return pages.show(request, "ui/task.html", **context)


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


def link(filters: dict[str, str], after: str | None = None) -> str:
    """The address of the list with these filters."""
    text = search.write(filters)
    query = urlencode([pair for pair in (("q", text), ("after", after or "")) if pair[1]])
    return f"/tasks?{query}" if query else "/tasks"


def without(filters: dict[str, str], name: str) -> dict[str, str]:
    """The filters but one."""
    return {key: value for key, value in filters.items() if key != name}


def tabs(filters: dict[str, str]) -> list[tuple[str, str, bool]]:
    """Name, address and whether it is the chosen one."""
    rest = without(filters, "state")
    return [
        (name, link(rest | ({"state": state} if state else {})), filters.get("state", "") == state)
        for name, state in TABS
    ]


def colours(request: HttpRequest) -> dict[str, str]:
    """The mark colours of the classes that this person sees."""
    return palette.palette(row["slug"] for row in pages.numbers(request)["classes"])


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
