"""Statistics of a pool over a window: classes, tenants, workers, dead letters, wanted slots (scope `read`).

`wait_*` are percentiles of the wait of tasks whose first start fell into the window. `slots_wanted` is what an
autoscaler should aim at: running plus startable tasks by capability set, cut to the pool's budget.
`slo.queue` and `slo.done` hold attainment and burn rate by window (services/slo.py), for callers of all tenants.
"""

from collections import Counter
from typing import Any

from dispatch.core import validate
from dispatch.errors import Invalid
from dispatch.services import access, numbers, slo
from dispatch.services.messages import Caller
from dispatch.services.numbers import Numbers, Waiting
from dispatch.store import db

DEFAULT_WINDOW_S = 300.0
MAX_WINDOW_S = 86400.0
DEAD_GROUPS = 50
NOTHING = Waiting()


def stats(caller: Caller, pool: str | None = None, window_s: float = DEFAULT_WINDOW_S) -> dict[str, Any]:
    """The answer of GET /stats; `window_s` 1..86400."""
    if problem := validate.number(window_s, 1, MAX_WINDOW_S):
        raise Invalid(("window_s", problem))
    with db.atomic():
        found = numbers.read(caller, pool, float(window_s))
        fleet = access.everywhere(caller)
        return {
            "pool": found.pool["slug"],
            "window_s": window_s,
            "classes": _classes(found),
            "tenants": _tenants(found),
            "workers": _workers(found) if fleet else {},
            "dead": _dead(found),
            "slots_wanted": wanted(found),
        }


def _ages(count: Waiting) -> dict[str, Any]:
    return {
        "queued": count.queued,
        "running": count.running,
        "scheduled": count.scheduled,
        "held": count.held,
        "oldest_age_s": count.oldest_age_s,
        "limited_oldest_age_s": count.limited_oldest_age_s,
    }


def _classes(found: Numbers) -> list[dict[str, Any]]:
    waiting = found.by(lambda lane: lane["class_id"])
    waits = {row["class_id"]: row for row in db.rows("numbers_waits", {**found.scope, "window_s": found.window_s})}
    kept = slo.of_classes(found.pool["id"]) if found.visible is None else {}
    items = []
    for row in found.classes:
        count, measured = waiting.get(row["id"], NOTHING), waits.get(row["id"])
        p50, p95, p99 = measured["waits"] if measured else (None, None, None)
        items.append(
            {
                "slug": row["slug"],
                **_ages(count),
                "wait_p50_s": p50,
                "wait_p95_s": p95,
                "wait_p99_s": p99,
                "dispatched": found.started(row["id"]),
                "share_target": found.targets.get(row["id"], 0.0),
                "share_achieved": found.achieved.get(row["id"], 0.0),
                "demand": count.startable + count.running > 0,
                "slo": {
                    "queue_s": row["slo_queue_s"],
                    "queue_met": measured["met"] if measured else None,
                    "done_s": row["slo_done_s"],
                    "objective": slo.objective(),
                    **kept.get(row["id"], {"queue": {}, "done": {}}),
                },
            }
        )
    return items


def _tenants(found: Numbers) -> list[dict[str, Any]]:
    waiting = found.by(lambda lane: lane["tenant_id"])
    total = sum(row["slot_s"] for row in found.service.values())
    items = []
    for row in found.tenants:
        mine = [service for (_, tenant_id), service in found.service.items() if tenant_id == row["id"]]
        served = sum(service["slot_s"] for service in mine)
        items.append(
            {
                "slug": row["slug"],
                "weight": row["weight"],
                "nominal": row["nominal"],
                "max": row["max"],
                **_ages(waiting.get(row["id"], NOTHING)),
                "dispatched": sum(service["started"] for service in mine),
                "share_achieved": served / total if total else 0.0,
            }
        )
    return items


def _workers(found: Numbers) -> dict[str, Any]:
    busy = sum(row["running"] for row in found.alive)
    return {
        "total": len(found.workers),
        "live": sum(row["alive"] for row in found.workers),
        "draining": sum(row["draining"] for row in found.workers),
        "slots": found.slots,
        "running": busy,
        "free": max(0, found.slots - busy),
    }


def _dead(found: Numbers) -> dict[str, Any]:
    lately = db.one("numbers_dead_lately", found.scope)
    return {
        "total": sum(lane["dead"] for lane in found.lanes),
        "new_1h": lately["new_1h"] if lately else 0,
        "groups": db.rows("numbers_dead_groups", {**found.scope, "limit": DEAD_GROUPS}),
    }


def wanted(found: Numbers) -> list[dict[str, Any]]:
    """Slots that could be used now, by capability set: `pool`, `capabilities`, `slots`."""
    slots_of: Counter[int] = Counter()
    for lane in found.lanes:
        slots_of[lane["capset_id"]] += lane["running"] + (0 if lane["stopped"] else lane["queued"])
    names = {row["id"]: row["names"] for row in db.rows("numbers_capsets", {"ids": list(slots_of)})}
    budget, items = found.pool["budget"], []
    for capset_id, slots in sorted(slots_of.items()):
        if slots:
            cut = slots if budget is None else min(slots, budget)
            items.append({"pool": found.pool["slug"], "capabilities": names[capset_id], "slots": cut})
    return items
