"""Requeue: a dead letter gets a fresh life at the back of its lane; id, payload and history stay. Twice is once."""

from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.core.states import State
from dispatch.errors import Conflict, Invalid
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.store import db

#: what a dead task was, kept in the audit: an undo puts it back
DIED = ("reason", "attempts", "losses", "handbacks", "error", "fingerprint", "finished_at")


def requeue(caller: Caller, task_id: int, reason: str = "") -> dict[str, Any]:
    """Requeue one dead task (scope `operate`); Conflict when it is not dead, or not any more."""
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, "requeue", "task", task_id), db.atomic():
        access.see_task(caller, task_id, "operate")
        row = db.one("requeue_dead", {"task_ids": [task_id]})
        if row is None:
            raise Conflict("The task is not dead (any more): somebody may have requeued it already.")
        died = {name: row[name] for name in DIED}
        before, after = {"state": State.DEAD.word, **died}, {"state": State.QUEUED.word}
        audit.record(caller, "requeue", "task", task_id, before, after, reason, row["tenant_id"])
        db.hint(events.POOL, [row["pool_id"]])
    return {"id": task_id, **after}
