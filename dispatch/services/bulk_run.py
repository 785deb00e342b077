"""Bulk jobs at work: the reconciler calls `advance` every second.

Each step is one transaction: the job is locked, the pace decides how many tasks move (core/pacing.py), the tasks move,
the items and the job's numbers say so. So a kill at any moment leaves each task dead or queued, never both or neither,
and the next process goes on where the last one was. A task that has left its state meanwhile is skipped.
"""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import InterfaceError, OperationalError

from dispatch import events
from dispatch.core import pacing
from dispatch.core.states import State
from dispatch.core.types import MICRO
from dispatch.errors import Conflict, NotFound
from dispatch.services import cancel
from dispatch.services.messages import Caller
from dispatch.services.requeue import DIED
from dispatch.store import db

BATCH = 500  # tasks of one step
CANCEL_BATCH = 50  # cancels lock one by one
SETTLE = 5000  # moved tasks looked at again in one step
TURN_S = 0.4  # how long one job may keep the reconciler in a tick

STATEMENTS = {"requeue": "requeue_dead", "discard": "discard_dead"}
AFTER = {"requeue": State.QUEUED.word, "discard": State.CANCELLED.word}

logger = logging.getLogger(__name__)


def advance() -> int:
    """Let every active job take its steps; how many tasks moved. A job that fails does not stop the others."""
    moved = 0
    for (job_id,) in db.tuples("bulk_active"):
        try:
            moved += _turn(job_id)
        except (OperationalError, InterfaceError):
            raise  # the database, not the job
        except Exception:
            logger.exception("bulk job %s cannot go on", job_id, extra={"action": "bulk_failed"})
    return moved


def _turn(job_id: int) -> int:
    moved, started = 0, time.monotonic()
    while time.monotonic() - started < TURN_S:
        taken, more = step(job_id)
        moved += taken
        if not more:
            break
    return moved


def step(job_id: int) -> tuple[int, bool]:
    """One step of one job: how many tasks moved, and whether another step may move more right now."""
    with db.atomic():
        job = db.one("lock_bulk_active", {"id": job_id})
        if job is None:
            return 0, False
        pace = _pace(job)
        if pace.watches:
            job |= db.rows("settle_bulk_items", {"id": job_id, "limit": SETTLE})[0]
        batch = CANCEL_BATCH if job["action"] == "cancel" else BATCH
        plan = pacing.step(pace, _progress(job), batch)
        reasons = _move(job, _take(job_id, plan.take)) if plan.take else {}
        marks = {"task_ids": list(reasons), "reasons": list(reasons.values())}
        if reasons:
            db.execute("mark_bulk_items", {"id": job_id, **marks})
        skipped = sum(1 for reason in reasons.values() if reason)
        db.execute(
            "advance_bulk",
            {
                "id": job_id,
                "state": plan.state,
                "done": len(reasons) - skipped,
                "skipped": skipped,
                "credit": plan.credit,
                "note": plan.note,
            },
        )
    if plan.state in {"done", "stopped"}:
        logger.info("bulk job %s is %s %s", job_id, plan.state, plan.note, extra={"action": "bulk_ended"})
    return len(reasons), plan.take == batch and bool(reasons)


def _take(job_id: int, limit: int) -> list[int]:
    return [row[0] for row in db.tuples("take_bulk_items", {"id": job_id, "limit": limit})]


def _pace(job: Mapping[str, Any]) -> pacing.Pace:
    def micro(value: float | None) -> int | None:
        return None if value is None else round(value * MICRO)

    return pacing.Pace(
        rate=micro(job["rate_per_s"]),
        max_in_flight=job["max_in_flight"],
        canary=job["canary"],
        stop_above=micro(job["stop_above"]),
    )


def _progress(job: Mapping[str, Any]) -> pacing.Progress:
    return pacing.Progress(
        state=job["state"],
        pending=job["matched"] - job["done"] - job["skipped"],
        moved=job["done"],
        well=job["well"],
        again=job["again"],
        credit=job["credit"],
        elapsed=job["elapsed"] or 0,
    )


def _move(job: Mapping[str, Any], task_ids: Sequence[int]) -> dict[int, str]:
    """What became of these tasks: "" where they moved, else why not. Ones that change hands are left for later."""
    if job["action"] == "cancel":
        return _cancel(job, task_ids)
    params = {"task_ids": list(task_ids), "reason": job["reason"]}
    if job["action"] == "requeue":
        del params["reason"]
    rows = db.rows(STATEMENTS[job["action"]], params)
    _audit(job, rows)
    if rows:
        db.hint(events.POOL if job["action"] == "requeue" else events.TASK, _told(job, rows))
        db.hint(events.LIVE, "tasks")
    moved = {row["id"] for row in rows}
    return {task_id: "" if task_id in moved else "not dead any more" for task_id in task_ids}


def _told(job: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> set[int]:
    return {row["pool_id"] if job["action"] == "requeue" else row["id"] for row in rows}


def _cancel(job: Mapping[str, Any], task_ids: Sequence[int]) -> dict[int, str]:
    maker = Caller(kind=job["actor_kind"], id=job["actor_id"], name=job["actor_name"], scopes=frozenset())
    reasons: dict[int, str] = {}
    for task_id in task_ids:
        try:
            if cancel.cancel_one(maker, task_id, job["reason"]):
                reasons[task_id] = ""
        except (Conflict, NotFound) as problem:
            reasons[task_id] = problem.detail
    return reasons


def _audit(job: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """One entry for each task that moved, by the name of the job's maker."""
    db.execute(
        "insert_audit_tasks",
        {
            **{name: job[name] for name in ("actor_kind", "actor_id", "actor_name", "action", "reason")},
            "after": json.dumps({"state": AFTER[job["action"]], "bulk": job["id"]}),
            "targets": [str(row["id"]) for row in rows],
            "tenant_ids": [row["tenant_id"] for row in rows],
            "befores": [
                json.dumps({"state": State.DEAD.word} | {name: row[name] for name in DIED}, default=str) for row in rows
            ],
        },
    )
