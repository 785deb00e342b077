"""Workers: register opens a session, goodbye ends it, list shows the fleet.

A worker is a name in a pool and outlives its sessions; leases and permissions belong to the session and to the key
that opened it. Slots and capabilities are the session's: registering again is how a worker changes them.
"""

import json
import math
from typing import Any

from dispatch import events
from dispatch.core.states import Outcome
from dispatch.errors import Invalid, NotFound
from dispatch.services import access, ending, paging, sessions
from dispatch.services.messages import Caller, Page, Registered, WorkerSpec
from dispatch.store import capsets, db

MAX_SLOTS = 1000
MAX_CAPABILITIES = 64
MAX_WEIGHT = 1000.0


def register(caller: Caller, spec: WorkerSpec) -> Registered:
    """Open a session for a worker; its older sessions keep their leases until those end.

    Raises Forbidden without `work`, Invalid for a pool that does not exist (or is not the key's), slots, weight.
    """
    access.require(caller, "work")
    _check(spec)
    with db.atomic():
        pool = _pool(caller, spec.pool)
        names = tuple(sorted(set(spec.capabilities)))
        row = db.one(
            "register_worker",
            {
                "pool_id": pool["id"],
                "name": spec.name,
                "weight": spec.weight,
                "capset_id": capsets.intern([names])[names],
                "tenant_id": caller.tenant_id,
                "api_key_id": caller.id if caller.kind == "key" else None,
                "slots": spec.slots,
                "version": spec.version,
                "labels": json.dumps(dict(spec.labels)),
            },
        )
        db.hint(events.LIVE, "workers")
    assert row is not None
    return Registered(
        worker_id=row["worker_id"],
        session_id=row["session_id"],
        lease_ttl_s=pool["lease_ttl_s"],
        heartbeat_every_s=sessions.heartbeat_every_s(row["session_id"], pool["id"], pool),
        offer_ttl_s=pool["offer_ttl_s"],
    )


def _check(spec: WorkerSpec) -> None:
    errors = []
    if not 1 <= spec.slots <= MAX_SLOTS:
        errors.append(("slots", f"must be within 1..{MAX_SLOTS}"))
    if len(set(spec.capabilities)) > MAX_CAPABILITIES:
        errors.append(("capabilities", f"must be at most {MAX_CAPABILITIES}"))
    if spec.weight is not None and not (math.isfinite(spec.weight) and 0 < spec.weight <= MAX_WEIGHT):
        errors.append(("weight", f"must be above 0 and at most {MAX_WEIGHT:g}"))
    if errors:
        raise Invalid(*errors)


def _pool(caller: Caller, slug: str | None) -> dict[str, Any]:
    if slug is None and caller.pool_id is None:
        slug = "default"
    pool = db.one("pool_by_slug", {"slug": slug, "pool_id": caller.pool_id})
    if pool is None or caller.pool_id not in {None, pool["id"]}:
        raise Invalid(("pool", "there is no such pool"))
    return pool


def goodbye(caller: Caller, session_id: int) -> None:
    """End a session: what it holds, delivered or not, is released at once and no attempt is counted.

    Raises NotFound for a session that is not the caller's or has ended.
    """
    with db.atomic():
        session = sessions.find_open([session_id]).get(session_id)
        refused = sessions.refusal(caller, session)
        if refused:
            raise refused
        leases = ending.lock_session(session_id)
        ending.end(leases, [ending.End(outcome=Outcome.RELEASED, reason="goodbye") for _ in leases])
        if not db.rows("close_session", {"session_id": session_id}):
            raise NotFound("There is no such session, or it has ended: register again.")
        db.hint(events.LIVE, "workers")


def list_workers(caller: Caller, pool: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
    """Workers by id with open sessions, slots, running leases and capabilities. A tenant's key sees its own only."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    pool_id = _pool(caller, pool)["id"] if pool or caller.pool_id else None
    after = int(paging.decode("workers", cursor)[0]) if cursor else 0
    params = {"after": after, "pool_id": pool_id, "tenant_id": caller.tenant_id, "limit": limit + 1}
    found = [_shown(row) for row in db.rows("list_workers", params)]
    return paging.page("workers", found, limit, lambda item: [item["id"]])


def find(caller: Caller, worker_id: int) -> dict[str, Any] | None:
    """One worker as `list_workers` shows it, or None where the caller sees none of that id."""
    if not 0 < worker_id < 2**63:
        return None
    params = {"after": worker_id - 1, "pool_id": caller.pool_id, "tenant_id": caller.tenant_id, "limit": 1}
    rows = [row for row in db.rows("list_workers", params) if row["id"] == worker_id]
    return _shown(rows[0]) if rows else None


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    row["deficit"] = row["deficit"] / 1_000_000
    row.pop("lease_ttl_s")
    row["state"] = _state(row)
    return row


def _state(row: dict[str, Any]) -> str:
    if not row["sessions"]:
        return "gone"
    for flag in ("quarantined", "paused", "draining"):
        if row[flag]:
            return flag
    return "live" if row["alive"] else "stale"
