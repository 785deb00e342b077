"""Revoke: an operator takes a lease back at once. The task is queued again in its old place, no attempt counted."""

from dispatch import events
from dispatch.core import validate
from dispatch.core.states import Outcome, State
from dispatch.errors import Conflict, Invalid
from dispatch.services import access, audit, ending
from dispatch.services.messages import Caller
from dispatch.store import db


def revoke(caller: Caller, task_id: int, reason: str) -> dict[str, str]:
    """End the lease of one task (scope `operate`): {"state"}. Conflict when the task is not leased.

    The agent hears `lost` at its next heartbeat; what it reports after that is kept as evidence only.
    """
    if problem := validate.text(reason, 1, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, "revoke", "task", task_id):
        task = access.see_task(caller, task_id, "operate")
        with db.atomic():
            lease = db.one("lock_lease_of_task", {"task_id": task_id})
            leases = ending.lock([task_id]) if lease else []
            if not lease or not leases:
                raise Conflict("The task is not leased.")
            how = ending.End(outcome=Outcome.OPERATOR, reason=reason)
            state = ending.end(leases, [how])[task_id]
            db.hint(events.SESSION, [lease["session_id"]])
            before, after = {"state": State.LEASED.word}, {"state": state.word}
            audit.record(caller, "revoke", "task", task_id, before, after, reason, task["tenant_id"])
    return after
