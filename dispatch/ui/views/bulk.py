"""`/bulk`: bulk jobs; `/bulk/<id>`: one job, from the dry run over pace and confirmation to its progress.

The tasks are frozen when the dry run is made, and exactly those are acted on. What cannot be undone is confirmed by
typing its number of tasks.
"""

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from dispatch import downloads, errors
from dispatch.live import words
from dispatch.live.cells import bulk as cells
from dispatch.services import bulk, bulk_plan
from dispatch.ui import once, pages, search
from dispatch.ui.views.tasks import PAGE, colours

PACE = {"rate_per_s": float, "max_in_flight": int, "canary": int, "stop_above": float}
#: a careful beginning for a requeue; the operator changes it
DEFAULTS = {"rate_per_s": "2", "max_in_flight": "20", "canary": "5", "stop_above": "20"}
VERBS = {"pause": "paused", "resume": "resumed", "abort": "aborted"}
TYPED = ("discard", "cancel")
HEAD = ("task", "class", "tenant", "type", "result", "state", "reason")


@pages.page
def jobs(request: HttpRequest) -> HttpResponse:
    """Jobs, newest first."""
    page = bulk.list_(pages.caller(request), PAGE, request.GET.get("after") or None)
    context: dict[str, Any] = {
        "rows": [cells.row(job) for job in page.items],
        "older": f"/bulk?{urlencode({'after': page.next_cursor})}" if page.next_cursor else "",
    }
    return pages.show(request, "ui/bulk.html", **context)


@pages.page
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    """One job: the wizard while it is a dry run, else its progress."""
    caller = pages.caller(request)
    found = bulk.get(caller, job_id)
    context: dict[str, Any] = {
        "job": found,
        "row": cells.row(found),
        "once": once.token(),
        "may_act": pages.may(request, *bulk.SCOPES[found["action"]]),
    }
    if found["state"] != "dry_run":
        context["active"] = found["state"] in cells.ACTIVE
        context["may_undo"] = found["action"] == "requeue" and found["done"] > found["ended_well"] + found["dead_again"]
        return pages.show(request, "ui/bulkjob.html", f"bulk:{job_id}", **context)
    split = bulk_plan.dry_run(caller, job_id)
    pace = {name: request.GET.get(name, DEFAULTS[name]) for name in PACE} if found["action"] == "requeue" else {}
    context |= {
        "verb": cells.ACTIONS[found["action"]][0],
        "what": cells.ACTIONS[found["action"]][2],
        "typed": found["action"] in TYPED,
        "split": cells.split(split, colours(request)),
        "late": split["late"],
        "stopped": split["stopped"],
        "capped": split["capped"],
        "pace": pace,
        "plan": cells.plan(bulk_plan.estimate(split, _lenient(pace))),
        "waits": cells.waits(bulk_plan.delays(split)) if found["action"] == "requeue" else "",
        "reason": request.GET.get("reason", ""),
        "first": bulk_plan.first(caller, job_id),
        "c": colours(request),
    }
    return pages.show(request, "ui/bulkplan.html", **context)


@require_safe
@login_required
def plan(request: HttpRequest, job_id: int) -> HttpResponse:
    """The plan of a dry run at the pace that is being typed."""
    try:
        split = bulk_plan.dry_run(pages.caller(request), job_id)
    except errors.EvenflowError as error:
        return pages.failure(request, error)
    estimate = bulk_plan.estimate(split, _lenient({name: request.GET.get(name, "") for name in PACE}))
    return render(request, "ui/parts/plan.html", {"plan": cells.plan(estimate)})


@require_POST
@login_required
def create(request: HttpRequest) -> HttpResponse:
    """Freeze what the search line finds, or the ticked tasks, for one action."""
    back = request.POST.get("back", "/tasks")
    back = back if back.startswith(("/tasks", "/dead")) else "/tasks"

    def freeze() -> tuple[str, str]:
        if request.POST.get("whole"):
            filters: dict[str, str] = search.parse(request.POST.get("q", ""))
        else:
            ids = request.POST.getlist("task")
            if not ids:
                raise errors.Invalid(("task", "Tick at least one task."))
            filters = {"id": ",".join(ids)}
        made = bulk.create(pages.caller(request), request.POST.get("verb", ""), filters, "", dry_run=True)
        return f"/bulk/{made['id']}", ""

    return once.run(request, freeze, back)


@require_POST
@login_required
def start(request: HttpRequest, job_id: int) -> HttpResponse:
    """Run what the dry run has frozen."""

    def begin() -> tuple[str, str]:
        caller = pages.caller(request)
        found = bulk.get(caller, job_id)
        if found["action"] in TYPED and request.POST.get("typed", "").strip().replace(",", "") != str(found["matched"]):
            raise errors.Invalid(("typed", f"type {found['matched']} to confirm"))
        started = bulk.start(caller, job_id, _pace(request), request.POST.get("reason", "").strip())
        return f"/bulk/{job_id}", f"{cells.row(started)['title']}: started"

    return once.run(request, begin, f"/bulk/{job_id}?{_kept(request)}")


@require_POST
@login_required
def steer(request: HttpRequest, job_id: int, verb: str) -> HttpResponse:
    """Pause, resume, abort, or take back what has not started yet."""
    back = f"/bulk/{job_id}"

    def act() -> tuple[str, str]:
        caller = pages.caller(request)
        if verb == "undo":
            undone = bulk.undo(caller, job_id, request.POST.get("reason", "").strip())["undone"]
            return back, f"{words.plural(undone, 'task')} taken back; what has started goes on"
        if verb not in VERBS:
            raise errors.NotFound("There is no such command.")
        bulk.command(caller, job_id, verb)
        return back, f"Job {job_id} {VERBS[verb]}"

    return once.run(request, act, back)


@require_safe
@login_required
def results(request: HttpRequest, job_id: int) -> HttpResponseBase:
    """What became of every task, as CSV."""
    try:
        rows = bulk_plan.results(pages.caller(request), job_id)
    except errors.EvenflowError as error:
        return pages.failure(request, error)
    lines = (
        [row["task_id"], row["class"], row["tenant"], row["type"], row["item"], row["state"], row["reason"]]
        for row in rows
    )
    return downloads.sheet(request, f"bulk-{job_id}.csv", HEAD, lines)


def _pace(request: HttpRequest) -> dict[str, Any]:
    pace: dict[str, Any] = {}
    for name, make in PACE.items():
        text = request.POST.get(name, "").strip().replace(",", ".")
        if not text:
            continue
        try:
            pace[name] = make(text)
        except ValueError:
            raise errors.Invalid((name, "type a number, or leave it empty")) from None
    if "stop_above" in pace:
        pace["stop_above"] /= 100  # the page speaks in percent
    return pace


def _lenient(given: dict[str, str]) -> dict[str, Any]:
    """What can be read of a pace that is being typed."""
    pace: dict[str, Any] = {}
    for name, text in given.items():
        try:
            value = float(text.replace(",", ".") or 0)
        except ValueError:
            continue
        if 0 < value < 1e9:
            pace[name] = value if name == "rate_per_s" else max(1, int(value))
    return pace


def _kept(request: HttpRequest) -> str:
    """What was typed, for the form that comes back after a refusal."""
    return urlencode({name: request.POST[name] for name in (*PACE, "reason") if name in request.POST})
