"""Supply against demand: for each set of capabilities that tasks need, who could run them now (scope `read`).

From the one reading that the live page uses. A worker counts where one live session of it offers all of the set and may
serve a tenant that needs it; a worker that is drained, paused or quarantined counts nowhere. One worker may count in
several sets, so the slots of different sets must not be added up. Members of a tenant see its demand, no supply.
"""

from collections import defaultdict
from typing import Any

from dispatch.services import access, numbers
from dispatch.services.messages import Caller
from dispatch.services.numbers import Row, Waiting
from dispatch.store import db

WINDOW_S = 60.0


def supply(caller: Caller, pool: str | None = None) -> list[dict[str, Any]]:
    """Per needed set: `capabilities`, `queued`, `limited`, `scheduled`, `running`, `wanted` (running and startable),
    `oldest_age_s`, and of the workers `workers`, `slots`, `free` (None for members). Fewest workers first.
    """
    with db.atomic():
        found = numbers.read(caller, pool, WINDOW_S)
        demand = {key: count for key, count in found.by(lambda lane: lane["capset_id"]).items() if _any(count)}
        sessions = db.rows("numbers_supply", {"worker_ids": [row["id"] for row in found.alive]})
        ids = {*demand, *(row["capset_id"] for row in sessions)}
        names = {row["id"]: row["names"] for row in db.rows("numbers_capsets", {"ids": sorted(ids)})}
    tenants: dict[int, set[int]] = defaultdict(set)
    for lane in found.lanes:
        tenants[lane["capset_id"]].add(lane["tenant_id"])
    fleet = access.everywhere(caller)
    items = [
        _demand(names[key], count)
        | (_supply([row for row in sessions if _serves(row, names, key, tenants[key])]) if fleet else dict(UNKNOWN))
        for key, count in demand.items()
    ]
    return sorted(items, key=lambda item: (item["workers"] or 0, -item["queued"], item["capabilities"]))


UNKNOWN = {"workers": None, "slots": None, "free": None}


def _any(count: Waiting) -> bool:
    return bool(count.queued or count.scheduled or count.held or count.running)


def _serves(session: Row, names: dict[int, list[str]], key: int, tenants: set[int]) -> bool:
    own = session["tenant_id"] is None or session["tenant_id"] in tenants
    return own and set(names[key]) <= set(names[session["capset_id"]])


def _demand(capabilities: list[str], count: Waiting) -> dict[str, Any]:
    return {
        "capabilities": capabilities,
        "queued": count.queued,
        "limited": count.limited,
        "scheduled": count.scheduled,
        "running": count.running,
        "wanted": count.running + count.startable,
        "oldest_age_s": count.oldest_age_s,
    }


def _supply(sessions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "workers": len({row["worker_id"] for row in sessions}),
        "slots": sum(row["slots"] for row in sessions),
        "free": sum(max(0, row["slots"] - row["leases"]) for row in sessions),
    }
