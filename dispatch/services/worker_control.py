"""One worker: look at it, steer it (weight, drain, pause, quarantine), delete it.

Draining: it gets no new work, its agent hears `drain`, what it holds runs to its end. Paused and quarantined: it gets
no new work. All three are the worker's own, so they outlive its sessions. Taking a quarantine off closes its alert.
A worker that holds leases is not deleted: drain it first. Attempts keep the name of a deleted one, and an agent that
registers under the name makes it anew.
"""

from collections.abc import Mapping
from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, alerts, audit, workers
from dispatch.services.messages import Caller
from dispatch.store import db

QUARANTINE = "quarantine"  # rule of its alerts, subject worker:<id>
MISSING = "There is no such worker."


def _weight(value: Any) -> str | None:
    return validate.number(value, 0, workers.MAX_WEIGHT, above=True)


CHECKS = {
    "weight": _weight,
    "draining": validate.boolean,
    "paused": validate.boolean,
    "quarantined": validate.boolean,
}


def get_worker(caller: Caller, worker_id: int) -> dict[str, Any]:
    """One worker as in the list, with its open sessions and leases (scope `read`)."""
    access.require(caller, "read")
    if caller.kind == "user" and not access.everywhere(caller):  # a member of a tenant: the fleet is everybody's
        raise access.Hidden(MISSING)
    with db.atomic():
        found = workers.find(caller, worker_id)
        if found is None:
            raise NotFound(MISSING)
        mine = {"worker_id": worker_id, "tenant_id": caller.tenant_id}
        return found | {
            "open_sessions": db.rows("worker_sessions", mine),
            "leases": db.rows("worker_leases", mine),
        }


def patch_worker(caller: Caller, worker_id: int, changes: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Change a worker (`operate` for the whole installation); the answer is the worker as in the list."""
    with audit.refusals(caller, "patch_worker", "worker", worker_id), db.atomic():
        access.require_everywhere(caller, "operate")
        _check(changes, reason)
        row = _lock(caller, worker_id)
        given = dict.fromkeys(CHECKS) | dict(changes)
        if given["paused"] == row["paused"]:
            given["paused"] = None  # the pause stays as it is, with its author and end
        db.execute("change_worker", {"worker_id": worker_id, "author": caller.name, "reason": reason, **given})
        if changes.get("quarantined") is False:
            alerts.resolve(QUARANTINE, f"worker:{worker_id}")
        before = {name: row[name] for name in changes}
        audit.record(caller, "patch_worker", "worker", row["name"], before, dict(changes), reason)
        db.hint(events.POOL, [row["pool_id"]])
        db.hint(events.LIVE, "workers")
        found = workers.find(caller, worker_id)
    assert found is not None
    return found


def delete_worker(caller: Caller, worker_id: int, reason: str = "") -> None:
    """Take a worker out of the fleet (`operate` for the whole installation); Conflict, with numbers, while it works."""
    with audit.refusals(caller, "delete_worker", "worker", worker_id), db.atomic():
        access.require_everywhere(caller, "operate")
        if problem := validate.text(reason, 0, audit.REASON_LENGTH):
            raise Invalid(("reason", problem))
        row = _lock(caller, worker_id)
        left = db.rows("count_worker_leases", {"worker_id": worker_id})[0]
        if left["leases"]:
            raise Conflict(f"The worker {row['name']} holds leases: {left['leases']}. Drain it first.", **left)
        db.execute("archive_worker", {"worker_id": worker_id})
        alerts.resolve(QUARANTINE, f"worker:{worker_id}")
        before = {name: row[name] for name in CHECKS}
        audit.record(caller, "delete_worker", "worker", row["name"], before, None, reason)
        db.hint(events.LIVE, "workers")


def _lock(caller: Caller, worker_id: int) -> dict[str, Any]:
    row = db.one("lock_worker", {"worker_id": worker_id}) if 0 < worker_id < 2**63 else None
    if row is None:
        raise NotFound(MISSING)
    if caller.pool_id not in {None, row["pool_id"]}:
        raise access.Hidden(MISSING)
    return row


def _check(changes: Mapping[str, Any], reason: str) -> None:
    problems = [("body", f"name one or more of {', '.join(CHECKS)}")] if not changes else []
    problems += validate.each(CHECKS, changes)
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if problems:
        raise Invalid(*problems)
