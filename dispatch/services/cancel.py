"""Cancel: a waiting task ends at once; a running one is asked to stop and ends as cancelled, however it ends.

The lease is locked before the task. A task that turns out to be leased after its lease was found missing was handed out
in between: the locks are given back and taken again, so that the agent hears of it for certain.
"""

from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.core.states import FINAL, State
from dispatch.errors import Conflict, Invalid, NotFound, Unavailable
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.store import db

TRIES = 5


class _HandedOut(Exception):
    """The task was leased between the look at its lease and the lock on it."""


def cancel(caller: Caller, task_id: int, reason: str = "") -> dict[str, Any]:
    """Cancel one task (scope `submit` or `operate`): {"state": "cancelled"}, or {"state": "leased",
    "cancel_requested": true} while an agent still holds it. Conflict when it is final already.
    """
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, "cancel", "task", task_id):
        access.see_task(caller, task_id, "submit", other="operate")
        for _ in range(TRIES):
            try:
                with db.atomic():
                    return _cancel(caller, task_id, reason)
            except _HandedOut:
                continue
    raise Unavailable("The task changes hands too fast just now.", retry_after_s=1)


def cancel_one(caller: Caller, task_id: int, reason: str) -> bool:
    """The same inside the caller's transaction and without its checks, for a bulk job whose maker had the right.

    Raises Conflict when the task is final, NotFound when it is gone; False: it changes hands just now, try again.
    """
    try:
        with db.atomic():
            _cancel(caller, task_id, reason)
    except _HandedOut:
        return False
    return True


def _cancel(caller: Caller, task_id: int, reason: str) -> dict[str, Any]:
    lease = db.one("cancel_lock_lease", {"task_id": task_id})
    task = db.one("cancel_lock_task", {"task_id": task_id})
    if task is None:
        raise NotFound("There is no such task.")
    state = State(task["state"])
    if state in FINAL:
        raise Conflict(f"The task is {state.word} already.")
    leased = state is State.LEASED
    if leased and lease is None:
        raise _HandedOut
    answer = {"state": State.LEASED.word, "cancel_requested": True} if leased else {"state": State.CANCELLED.word}
    if task["cancel_requested"]:
        return answer
    db.one("cancel_leased" if leased else "cancel_waiting", {"task_id": task_id, "reason": reason or "cancelled"})
    if lease is not None:
        db.hint(events.SESSION, [lease["session_id"]])
    else:
        db.hint(events.TASK, [task_id])
    audit.record(caller, "cancel", "task", task_id, {"state": state.word}, answer, reason, task["tenant_id"])
    return answer
