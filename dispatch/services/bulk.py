"""Bulk jobs: requeue or discard dead letters, or cancel tasks, by filter, as a background job.

The tasks are frozen when the job is made: a dry run shows how many there are, and `start` then runs exactly those. What
happens to each is decided when its turn comes (services/bulk_run.py), so a task that has left the state is skipped with
a reason. States: dry_run, canary, running, paused, done, stopped (too many died again), aborted.
A caller of a tenant makes jobs over its own tasks only and sees only such jobs; an empty or unknown filter is refused.
"""

import json
from collections.abc import Mapping
from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.services import access, audit, paging, task_list
from dispatch.services.messages import Caller, Page
from dispatch.store import db
from dispatch.store import tasks as store

SCOPES = {"requeue": ("operate",), "discard": ("operate",), "cancel": ("submit", "operate")}
BASE = {"requeue": "dead", "discard": "dead", "cancel": "unfinished"}
READERS = ("read", "submit", "operate")
MAX_TASKS = 1_000_000
MAX_NEW = 10_000
MAX_UNDONE = 10_000  # tasks taken back in one call
MAX_SKIPPED = 1000  # skipped tasks shown with a job
PACE = ("rate_per_s", "max_in_flight", "canary", "stop_above")
SHOWN = ("id", "action", "filter", "state", "reason", "note", "matched", "done", *PACE)
TIMES = ("created_at", "started_at", "finished_at")
COMMANDS = {  # command → from which states, to which
    "pause": (("running", "canary"), "paused"),
    "resume": (("paused",), ""),
    "abort": (("dry_run", "running", "canary", "paused"), "aborted"),
}


def create(
    caller: Caller,
    action: str,
    filters: Mapping[str, Any],
    reason: str,
    pace: Mapping[str, Any] | None = None,
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Freeze the tasks that match and start on them, unless it is a dry run (which may leave the reason open)."""
    with audit.refusals(caller, f"{action}_bulk", "bulk", "new"), db.atomic():
        given = dict(pace or {})
        _check(action, reason, given, least=0 if dry_run else 1)
        tenants = _tenants(caller, SCOPES[action])
        values = _values(action, filters, tenants, caller.pool_id)
        task_list.see_payloads(caller, values)
        row = db.one(
            "insert_bulk",
            {
                **dict.fromkeys(PACE),
                **given,
                **_actor(caller),
                "action": action,
                "filter": json.dumps(dict(filters)),
                "reason": reason,
                "tenant_ids": tenants,
                "pool_id": caller.pool_id,
            },
        )
        assert row is not None
        store.freeze(row["id"], values, MAX_TASKS)
        db.execute("count_frozen", {"id": row["id"]})
        job = _lock(row["id"])
        if not dry_run:
            _start(caller, job, given, reason, new=0)
        return show(_lock(row["id"]))


def start(
    caller: Caller, job_id: int, pace: Mapping[str, Any] | None = None, reason: str | None = None
) -> dict[str, Any]:
    """Run exactly the tasks that a dry run has frozen. Conflict when it was started or aborted already."""
    with audit.refusals(caller, "start_bulk", "bulk", job_id), db.atomic():
        job = _mine(caller, job_id)
        _permit(caller, job)
        given = {name: job[name] for name in PACE} | dict(pace or {})
        _check(job["action"], job["reason"] if reason is None else reason, given)
        if job["state"] != "dry_run":
            raise Conflict(f"The job is {job['state']}: only a dry run can be started.")
        _start(caller, job, given, job["reason"] if reason is None else reason, new=_new(job))
        return show(_lock(job_id))


def command(caller: Caller, job_id: int, verb: str) -> dict[str, Any]:
    """`pause`, `resume` or `abort` a job; Conflict when it is not in a state for that."""
    with audit.refusals(caller, f"{verb}_bulk", "bulk", job_id), db.atomic():
        job = _mine(caller, job_id)
        _permit(caller, job)
        old, new = COMMANDS[verb]
        if job["state"] not in old:
            raise Conflict(f"The job is {job['state']}.")
        state = new or job["resumes"]
        db.execute("set_bulk_state", {"id": job_id, "state": state, "note": ""})
        _record(caller, f"{verb}_bulk", job, {"state": job["state"]}, {"state": state}, "")
        return show(_lock(job_id))


def undo(caller: Caller, job_id: int, reason: str = "") -> dict[str, Any]:
    """Put requeued tasks that nobody has started yet back among the dead; a job that still ran is aborted with it.

    At most MAX_UNDONE at a time; `undone` says how many. Conflict for other actions and for dry runs.
    """
    with audit.refusals(caller, "undo_bulk", "bulk", job_id), db.atomic():
        job = _mine(caller, job_id)
        _permit(caller, job)
        if problem := validate.text(reason, 0, audit.REASON_LENGTH):
            raise Invalid(("reason", problem))
        if job["action"] != "requeue" or job["state"] == "dry_run":
            raise Conflict("Only what a requeue has done can be taken back.")
        if job["state"] in COMMANDS["abort"][0]:
            db.execute("set_bulk_state", {"id": job_id, "state": "aborted", "note": ""})
        undone = db.execute("undo_requeued", {"id": job_id, "limit": MAX_UNDONE, "reason": reason, **_actor(caller)})
        _record(caller, "undo_bulk", job, {"state": job["state"]}, {"undone": undone}, reason)
        db.hint(events.LIVE, "dead")
        return show(_lock(job_id)) | {"undone": undone}


def get(caller: Caller, job_id: int) -> dict[str, Any]:
    """One job; `skipped` names at most 1000 tasks, `new` counts tasks that match but are not frozen."""
    tenants = _tenants(caller, READERS)
    job = db.one("get_bulk", {"id": job_id}) if 0 < job_id < 2**63 else None
    return show(_visible(caller, job, tenants))


def list_(caller: Caller, limit: int = 100, cursor: str | None = None) -> Page:
    """Jobs newest first, without the skipped tasks."""
    tenants = _tenants(caller, READERS)
    limit = paging.check_limit(limit)
    below = paging.decode("bulk", cursor)[0] if cursor else 2**63 - 1
    narrow = {"tenants": tenants, "pool_id": caller.pool_id}
    found = db.rows("list_bulk", {"below": below, "limit": limit + 1, **narrow})
    page = paging.page("bulk", found, limit, lambda row: [row["id"]])
    return Page(items=[_brief(row) for row in page.items], next_cursor=page.next_cursor)


def show(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as the API shows it."""
    skipped = db.rows("bulk_skipped", {"id": job["id"], "limit": MAX_SKIPPED}) if job["skipped"] else []
    new = _new(job) if job["state"] == "dry_run" else job["new"]
    return _brief(job) | {"skipped": skipped, "new": new}


def _brief(job: Mapping[str, Any]) -> dict[str, Any]:
    counts = {"skipped_count": job["skipped"], "ended_well": job["well"], "dead_again": job["again"]}
    return (
        {name: job[name] for name in SHOWN} | counts | {name: job[name] for name in TIMES} | {"by": job["actor_name"]}
    )


# Rights


def _tenants(caller: Caller, scopes: tuple[str, ...]) -> list[int] | None:
    """The tenants in which the caller has one of the scopes (None: all); Forbidden when there are none."""
    if caller.scopes & set(scopes):
        return access.visible_tenants(caller)
    found = [id_ for id_ in caller.memberships if any(access.may(caller, scope, id_) for scope in scopes)]
    if not found:
        raise Forbidden(f"This needs the scope {' or '.join(scopes)}.")
    return sorted(found)


def _visible(caller: Caller, job: dict[str, Any] | None, tenants: list[int] | None) -> dict[str, Any]:
    if job is None:
        raise NotFound("There is no such job.")
    foreign = tenants is not None and (job["tenant_ids"] is None or not set(job["tenant_ids"]) <= set(tenants))
    if foreign or caller.pool_id not in {None, job["pool_id"]}:
        raise access.Hidden("There is no such job.")
    return job


def _mine(caller: Caller, job_id: int) -> dict[str, Any]:
    tenants = _tenants(caller, READERS)
    return _visible(caller, db.one("lock_bulk", {"id": job_id}) if 0 < job_id < 2**63 else None, tenants)


def _permit(caller: Caller, job: Mapping[str, Any]) -> None:
    tenants = _tenants(caller, SCOPES[job["action"]])
    if tenants is not None and (job["tenant_ids"] is None or not set(job["tenant_ids"]) <= set(tenants)):
        raise Forbidden("The job touches tenants in which you may not do this.")


# Steps


def _check(action: str, reason: str, pace: Mapping[str, Any], least: int = 1) -> None:
    problems = []
    if action not in SCOPES:
        raise Invalid(("action", f"must be one of {', '.join(SCOPES)}"))
    if problem := validate.text(reason, least, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    checks = {
        "rate_per_s": lambda value: validate.number(value, 0, 1e6, above=True),
        "max_in_flight": lambda value: validate.whole(value, 1),
        "canary": lambda value: validate.whole(value, 1),
        "stop_above": lambda value: validate.number(value, 0, 1),
    }
    for name, value in pace.items():
        if value is None:
            continue
        problem = checks[name](value)
        if problem is None and action != "requeue" and name != "rate_per_s":
            problem = "is for requeue only"
        if problem:
            problems.append((name, problem))
    if problems:
        raise Invalid(*problems)


def _values(action: str, filters: Mapping[str, Any], tenants: list[int] | None, pool_id: int | None) -> dict[str, Any]:
    """The conditions of a filter inside what the caller may touch; Invalid when it is empty or unknown."""
    given = {name: value for name, value in filters.items() if value is not None}
    if not given:
        raise Invalid(("filter", "must not be empty: a bulk job never means everything"))
    values, problems = task_list.parse(given)
    if problems:
        raise Invalid(*((f"filter.{name}", problem) for name, problem in problems))
    if tenants is not None:
        if not set(values.get("tenant_ids", ())) <= set(tenants):
            raise Invalid(("filter.tenant", "there is no such tenant"))
        values.setdefault("tenant_ids", tenants)
    if pool_id is not None and values.setdefault("pool_id", pool_id) != pool_id:
        raise Invalid(("filter.pool", "there is no such pool"))
    return {BASE[action]: True, **values}


def _new(job: Mapping[str, Any]) -> int:
    try:
        values = _values(job["action"], job["filter"], job["tenant_ids"], job["pool_id"])
    except Invalid:  # what the filter names is gone
        return 0
    return store.count_unfrozen(job["id"], values, MAX_NEW)


def _lock(job_id: int) -> dict[str, Any]:
    return db.rows("lock_bulk", {"id": job_id})[0]


def _start(caller: Caller, job: Mapping[str, Any], pace: Mapping[str, Any], reason: str, new: int) -> None:
    state = "canary" if pace.get("canary") else "running"
    given = {**dict.fromkeys(PACE), **pace}
    db.execute("start_bulk", {"id": job["id"], "state": state, "new": new, "reason": reason, **given, **_actor(caller)})
    before = {"filter": job["filter"], "matched": job["matched"]}
    after = {name: value for name, value in given.items() if value is not None} | {"state": state}
    _record(caller, f"{job['action']}_bulk", job, before, after, reason)


def _record(caller: Caller, action: str, job: Mapping[str, Any], before: Any, after: Any, reason: str) -> None:
    tenants = job["tenant_ids"] or []
    tenant_id = tenants[0] if len(tenants) == 1 else None
    audit.record(caller, action, "bulk", job["id"], before, after, reason, tenant_id)


def _actor(caller: Caller) -> dict[str, Any]:
    return {"actor_kind": caller.kind, "actor_id": caller.id, "actor_name": caller.name}
