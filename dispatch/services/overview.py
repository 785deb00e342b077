"""What the live page shows: one dictionary a second for all viewers with the same rights. Read-only, cheap.

Rates and shares are over the last WINDOW_S seconds. People and keys of a tenant get numbers of their tenants only: no
workers of the fleet, and shares, slots and commands as far as their own tasks and objects go.
"""

from typing import Any

from dispatch.core.types import MICRO
from dispatch.services import access, alerts, audit, audit_text, numbers, slo
from dispatch.services.messages import Caller
from dispatch.services.numbers import Numbers, Waiting
from dispatch.services.stats import stats
from dispatch.store import db

__all__ = ["overview", "stats"]

WINDOW_S = 60.0
NEWEST_DEAD = 20
COMMANDS = 20
OPEN_ALERTS = 100
MAX_LEASES = 5000
NOTHING = Waiting()


def overview(caller: Caller, pool: str | None = None) -> dict[str, Any]:
    """The numbers of one pool (default `default`); ages in seconds, None where there is no demand. Scope `read`.

    `slo` of a class: attainment and burn rate by window as services/slo.py says, None where nothing was judged.
    """
    with db.atomic():
        found = numbers.read(caller, pool, WINDOW_S)
        fleet = access.everywhere(caller)
        return {
            "at": found.pool["at"].isoformat(),
            "pool": found.pool["slug"],
            "pools": _pools(caller, found),
            "alerts": _alerts(caller),
            "policy_version": found.pool["policy_version"],
            "cycle_ms": found.pool["cycle_ms"],
            "classes": _classes(found),
            "tenants": _tenants(found),
            "grid": _grid(found),
            "workers": _workers(found) if fleet else [],
            "dead": _dead(found),
            "totals": _totals(found, fleet=fleet),
            "leader": {"epoch": found.pool["epoch"], "beat_age_s": found.pool["beat_age_s"]},
            "commands": _commands(caller),
        }


def _classes(found: Numbers) -> list[dict[str, Any]]:
    waiting = found.by(lambda lane: lane["class_id"])
    arrived = {
        row["class_id"]: row["arrived"]
        for row in db.rows("numbers_arrivals", {**found.scope, "window_s": found.window_s})
    }
    owed = numbers.deficits(found.pool["id"], found.classes) if found.visible is None else {}
    kept = slo.of_classes(found.pool["id"]) if found.visible is None else {}
    return [
        _class(found, row, waiting.get(row["id"], NOTHING), arrived, owed) | {"slo": kept.get(row["id"])}
        for row in found.classes
    ]


def _class(
    found: Numbers, row: numbers.Row, count: Waiting, arrived: dict[int, int], owed: dict[int, float]
) -> dict[str, Any]:
    shown = {
        name: row[name]
        for name in ("slug", "weight", "version", "min", "max", "level", "slo_queue_s", "slo_done_s", "paused")
    }
    return shown | {
        "queued": count.queued,
        "scheduled": count.scheduled,
        "held": count.held,
        "limited": count.limited,
        "running": count.running,
        "oldest_age_s": count.oldest_age_s,
        "limited_oldest_age_s": count.limited_oldest_age_s,
        "dispatched_per_s": found.started(row["id"]) / found.window_s,
        "arrived_per_s": arrived.get(row["id"], 0) / found.window_s,
        "share_target": found.targets.get(row["id"], 0.0),
        "share_achieved": found.achieved.get(row["id"], 0.0),
        "deficit": owed.get(row["id"]),
        "demand": count.startable + count.running > 0,
    }


def _tenants(found: Numbers) -> list[dict[str, Any]]:
    waiting = found.by(lambda lane: lane["tenant_id"])
    shown = ("slug", "weight", "version", "nominal", "max", "paused")
    return [
        {name: row[name] for name in shown}
        | _count(waiting.get(row["id"], NOTHING))
        | {"limited": waiting.get(row["id"], NOTHING).limited}
        for row in found.tenants
    ]


def _count(count: Waiting) -> dict[str, Any]:
    return {"queued": count.queued, "running": count.running, "oldest_age_s": count.oldest_age_s}


def _grid(found: Numbers) -> list[dict[str, Any]]:
    classes = {row["id"]: row["slug"] for row in found.classes}
    tenants = {row["id"]: row["slug"] for row in found.tenants}
    waiting = found.by(lambda lane: (lane["class_id"], lane["tenant_id"]))
    return [
        {"class": classes[class_id], "tenant": tenants[tenant_id], **_count(count)}
        for (class_id, tenant_id), count in sorted(waiting.items())
        if class_id in classes and tenant_id in tenants and (count.queued or count.running)
    ]


def _workers(found: Numbers) -> list[dict[str, Any]]:
    ids = [row["id"] for row in found.workers]
    leases: dict[int, list[dict[str, Any]]] = {worker_id: [] for worker_id in ids}
    for row in db.rows("numbers_leases", {"worker_ids": ids, "limit": MAX_LEASES}) if ids else []:
        leases[row["worker_id"]].append(_lease(row))
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "state": worker_state(row, leases[row["id"]]),
            "slots": row["slots"],
            "running": row["running"],
            "capabilities": row["capabilities"],
            "last_seen_s": row["last_seen_s"],
            "deficit": row["deficit"] / MICRO,
            "leases": leases[row["id"]],
        }
        for row in found.workers
    ]


def _lease(row: numbers.Row) -> dict[str, Any]:
    since = row["renewed_at"] or row["delivered_at"]
    named = row["progress_step"] is not None or row["progress_fraction"] is not None or row["progress_note"]
    progress = {
        "step": row["progress_step"],
        "fraction": row["progress_fraction"],
        "note": row["progress_note"] or None,
    }
    return {
        "task_id": row["task_id"],
        "class": row["class"],
        "expires_at": row["expires_at"].isoformat(),
        "renewed_at": row["renewed_at"].isoformat() if row["renewed_at"] else None,
        "ttl_s": (row["expires_at"] - since).total_seconds() if since else None,
        "progress": progress if named else None,
        "progress_age_s": row["progress_age_s"],
        "progress_timeout_s": row["progress_timeout_s"],
    }


def worker_state(row: numbers.Row, leases: list[dict[str, Any]]) -> str:
    """One word for a worker, the most urgent first: quarantined, paused, lost, stalled, late, draining, live, idle."""
    stalled = any(
        lease["progress_timeout_s"] is not None
        and lease["progress_age_s"] is not None
        and lease["progress_age_s"] > lease["progress_timeout_s"]
        for lease in leases
    )
    words = (
        ("quarantined", row["quarantined"]),
        ("paused", row["paused"]),
        ("lost", not row["alive"]),
        ("stalled", stalled),
        ("late", row["late"] and not row["parked"]),
        ("draining", row["draining"]),
        ("live", row["running"] > 0),
    )
    return next((word for word, holds in words if holds), "idle")


def _dead(found: Numbers) -> dict[str, Any]:
    items = db.rows("numbers_dead_newest", {**found.scope, "limit": NEWEST_DEAD})
    lately = db.one("numbers_dead_lately", found.scope)
    for item in items:
        item["finished_at"] = item["finished_at"].isoformat()
    return {
        "total": sum(lane["dead"] for lane in found.lanes),
        "new_1h": lately["new_1h"] if lately else 0,
        "decided": db.tuples("triage_decided")[0][0],
        "items": items,
    }


def _pools(caller: Caller, found: Numbers) -> list[str]:
    """The pools that this caller may look at."""
    if caller.pool_id is not None:
        return [found.pool["slug"]]
    return [row["slug"] for row in db.rows("numbers_pools")]


def _alerts(caller: Caller) -> dict[str, Any]:
    """Open alerts, the newest OPEN_ALERTS of them; who sees only a tenant gets the alerts about it."""
    items = alerts.list_alerts(caller, state="open", limit=OPEN_ALERTS).items
    firing = sum(item["state"] == "firing" for item in items)
    return {"firing": firing, "acknowledged": len(items) - firing, "items": items}


def _totals(found: Numbers, *, fleet: bool) -> dict[str, Any]:
    everything = Waiting()
    for lane in found.lanes:
        everything.add(lane)
    oldest = max(
        (lane for lane in found.lanes if lane["age_s"] is not None and not lane["stopped"]),
        key=lambda lane: lane["age_s"],
        default=None,
    )
    names = {row["id"]: row["slug"] for row in found.classes}, {row["id"]: row["slug"] for row in found.tenants}
    busy = sum(row["running"] for row in found.alive) if fleet else everything.running
    return {
        "queued": everything.queued,
        "scheduled": everything.scheduled,
        "held": everything.held,
        "limited": everything.limited,
        "running": everything.running,
        "slots": found.slots,
        "free": max(0, found.slots - busy),
        "workers_live": sum(row["alive"] for row in found.workers),
        "workers": len(found.workers),
        "dispatched_per_s": sum(row["started"] for row in found.service.values()) / found.window_s,
        "oldest_age_s": everything.oldest_age_s,
        "oldest": {"class": names[0].get(oldest["class_id"]), "tenant": names[1].get(oldest["tenant_id"])}
        if oldest
        else None,
    }


def _commands(caller: Caller) -> list[dict[str, Any]]:
    found = db.rows(
        "list_audit",
        {
            **audit.NO_FILTERS,
            "below": 2**63 - 1,
            "tenants": access.visible_tenants(caller),
            "limit": COMMANDS,
            "refused": False,
            "system": False,  # the keys that a start makes are no command of anybody; the audit shows them
        },
    )
    return [
        {
            "at": row["at"].isoformat(),
            "actor": row["actor_name"],
            "text": audit_text.sentence(row),
            "reason": row["reason"],
        }
        for row in found
    ]
