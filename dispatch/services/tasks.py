"""Read tasks: one with its whole history, or a filtered list.

The history of a task is made of its own times, its attempts and the audit; nothing is stored twice. Payload, result,
errors' stacks and checkpoints are shown to keys and to people with the right to see payloads; for others `payload` and
`result` are null and `payload_hidden` is true.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.core.states import Outcome, State
from dispatch.core.types import MICRO
from dispatch.errors import EvenflowError, NotFound
from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.services.task_list import list_tasks
from dispatch.store import db

__all__ = ["ended", "get_task", "is_open", "list_tasks"]

PICKS = 5  # attempts whose decisions are looked up
DIRECTIVES = ("continue", "yield", "cancel")
COPIED = (
    "id",
    "type",
    "tenant",
    "class",
    "user",
    "pool",
    "capabilities",
    "tools",
    "priority",
    "key",
    "attempts",
    "losses",
    "handbacks",
    "starts",
    "attempts_allowed",
    "cancel_requested",
    "queued_at",
    "queue_age_s",
    "run_at",
    "created_at",
    "enqueued_at",
    "finished_at",
    "deadline",
    "max_attempts",
    "max_runtime_s",
    "progress_timeout_s",
    "error",
    "reason",
    "fingerprint",
)


def get_task(caller: Caller, task_id: int) -> dict[str, Any]:
    """One task in the shape of the API (scope `read`); costs in the pool's unit, times aware, ages in seconds."""
    access.see_task(caller, task_id, "read")
    with db.atomic():
        row = db.one("get_task", {"task_id": task_id})
        if row is None:
            raise NotFound("There is no such task.")
        attempts = db.rows("task_attempts", {"task_id": task_id})
        commands = db.rows("task_audit", {"target": str(task_id)})
    task = {name: row[name] for name in COPIED}
    task["reason"] = row["reason"] or None
    task["state"] = State(row["state"]).word
    task["lane"] = row["lane_id"]
    task["cost"] = None if row["cost_hint"] is None else row["cost_hint"] / MICRO
    task["lease"] = _lease(row)
    task["history"] = _history(row, attempts, commands)
    shown = access.views_payloads(caller, row["tenant_id"])
    task["payload"], task["result"] = (row["payload"], row["result"]) if shown else (None, None)
    if not shown:
        task["payload_hidden"] = True
    return task


def pulse(caller: Caller, task_id: int) -> dict[str, Any]:
    """What moves of a task while it is looked at (scope `read`): state, counts, its lease with ages in seconds."""
    access.see_task(caller, task_id, "read")
    row = db.one("task_pulse", {"task_id": task_id})
    if row is None:
        raise NotFound("There is no such task.")
    return row | {"state": State(row["state"]).word}


def picks(caller: Caller, task_id: int) -> list[dict[str, Any]]:
    """The dispatcher's newest decisions for this task that the ring of an hour still holds (scope `read`).

    `deficit` is what its queue was owed, in cost; the runner-up is named to those who see all tenants.
    """
    task = access.see_task(caller, task_id, "read")
    attempts = db.rows("task_attempts", {"task_id": task_id})
    times = [row["granted_at"] for row in attempts[-PICKS:]]
    row = db.one("get_task", {"task_id": task_id})
    if row is not None and row["granted_at"] is not None:
        times.append(row["granted_at"])
    found = db.rows("task_picks", {"task_id": task_id, "pool_id": task["pool_id"], "times": times}) if times else []
    hidden = {} if access.everywhere(caller) else {"runner_up": None, "runner_class": None, "runner_tenant": None}
    return [one | {"deficit": one["deficit"] / MICRO} | hidden for one in found]


def is_open(caller: Caller, task_id: int) -> bool:
    """Whether this task is the caller's to read and not final yet: whether its end can be waited for."""
    try:
        access.see_task(caller, task_id, "read")
    except EvenflowError:
        return False
    return not ended([task_id])


def ended(task_ids: Sequence[int]) -> list[int]:
    """Which of these tasks are final."""
    return [row[0] for row in db.tuples("ended_tasks", {"task_ids": list(task_ids)})]


def _lease(row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["token"] is None:
        return None
    return {
        "worker": row["worker"],
        "worker_id": row["worker_id"],
        "token": row["token"],
        "attempt": row["lease_attempt"],
        "granted_at": row["granted_at"],
        "delivered_at": row["delivered_at"],
        "expires_at": row["expires_at"],
        "directive": DIRECTIVES[row["directive"]],
        "progress": _progress(row),
    }


def _progress(row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["progress_step"] is None and row["progress_fraction"] is None and not row["progress_note"]:
        return None
    return {
        "step": row["progress_step"],
        "fraction": row["progress_fraction"],
        "note": row["progress_note"] or None,
        "at": row["progress_at"],
    }


def _history(
    row: Mapping[str, Any], attempts: list[dict[str, Any]], commands: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Events in the order of time; equal times keep the order of a life: submitted, commands, attempts, the end."""
    events: list[dict[str, Any]] = [{"at": row["created_at"], "event": "submitted"}]
    if row["run_at"] and not row["starts"]:
        events[0]["run_at"] = row["run_at"]
    events += [
        {"at": one["at"], "event": one["action"], "actor": one["actor_name"], "reason": one["reason"] or None}
        for one in commands
    ]
    for one in attempts:
        events += _attempt_events(one)
    if row["token"] is not None:
        at = row["delivered_at"] or row["granted_at"]
        events.append({"at": at, "event": "leased", "attempt": row["lease_attempt"], "worker": row["worker"]})
    if row["finished_at"] is not None:
        end = {"at": row["finished_at"], "event": State(row["state"]).word, "reason": row["reason"] or None}
        events.append(end)
    return sorted(events, key=lambda event: event["at"])


def _attempt_events(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    who = {"attempt": one["attempt"], "worker": one["worker"]}
    start = one["delivered_at"] or one["granted_at"]
    end = {
        "at": one["ended_at"],
        "event": Outcome(one["outcome"]).word,
        **who,
        "started_at": start,
        "counted": one["counted"],
        "reason": one["reason"] or None,
        "error": one["error"],
        "cost": None if one["cost"] is None else one["cost"] / MICRO,
        "progress": one["progress"],
        "late": one["late"],
        "token": one["token"],
        "worker_id": one["worker_id"],
    }
    return [{"at": start, "event": "leased", **who}, end]
