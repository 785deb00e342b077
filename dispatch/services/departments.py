"""A department's own view of a pool: what it uses of what is its, what it borrows or lends and why, its oldest waits.

Others appear only as one number ("other tenants"). Lending and borrowing are told from what runs now: running above the
quota is borrowed from what others leave unused; quota that is not used while others run above theirs is lent.
Quota words: docs/scheduling.md.
"""

from collections.abc import Mapping
from typing import Any

from dispatch.core.types import MICRO
from dispatch.services import access, numbers, policy, series, tenant_limits
from dispatch.services.messages import Caller
from dispatch.services.numbers import Waiting
from dispatch.store import db

SPAN_S = 3 * 3600.0  # of the chart
DAY_S = 86400.0
POINTS = 90
USERS = 100  # the busiest
USAGE_DAYS = 31
USAGE_ROWS = 10_000
NOTHING = Waiting()


def names(caller: Caller) -> list[str]:
    """The departments that this person belongs to, by membership."""
    return [row["slug"] for row in db.rows("tenant_slugs", {"ids": list(caller.memberships)})]


def overview(caller: Caller, tenant: str, pool: str | None = None) -> dict[str, Any]:
    """The department's numbers in a pool (scope `read` in the tenant); ages in seconds, None: nothing waits."""
    tenant_id = access.tenant_id(caller, tenant, "read")
    with db.atomic():
        whole = numbers.waiting(access.system("department"), pool)
        access.see_pool(caller, whole.pool["id"])
        own = policy.get(caller, "tenant", tenant)
        running = whole.by(lambda lane: lane["tenant_id"])
        others = [row for row in whole.tenants if row["id"] != tenant_id]
        slots = sum(worker["slots"] for worker in numbers.live_workers(whole.pool) if _works(worker))
        mine = [lane for lane in whole.lanes if lane["tenant_id"] == tenant_id]
        total = running.get(tenant_id, NOTHING)
        return {
            "tenant": tenant,
            "pool": whole.pool["slug"],
            "at": whole.pool["at"],
            "limits": {name: own[name] for name in ("nominal", "max", "borrow", "user_max", "paused", "weight")},
            "queued": total.queued,
            "running": total.running,
            "limited": total.limited,
            "held": total.held,
            "scheduled": total.scheduled,
            "dead": total.dead,
            "slots": slots,
            "share": share(
                own,
                total,
                unused=sum(max(0, row["nominal"] - running.get(row["id"], NOTHING).running) for row in others),
                borrowed=sum(max(0, running.get(row["id"], NOTHING).running - row["nominal"]) for row in others),
                slots=slots,
            ),
            "classes": _classes(whole, mine),
            "users": _users(tenant_id, mine, own),
        }


def _works(worker: Mapping[str, Any]) -> bool:
    return worker["alive"] and not (worker["draining"] or worker["paused"] or worker["quarantined"])


def share(own: Mapping[str, Any], total: Waiting, *, unused: int, borrowed: int, slots: int) -> dict[str, Any]:
    """Slots of ours, borrowed and lent now, how far borrowing may go, and why it is as it is.

    `unused`, `borrowed`: what all other tenants leave of their quotas, and run beyond them.
    """
    nominal, running = own["nominal"], total.running
    caps = [cap for cap in (own["max"], None if own["borrow"] is None else nominal + own["borrow"]) if cap is not None]
    borrows = max(0, running - nominal)
    lends = min(max(0, nominal - running), borrowed)
    found = {"nominal": nominal, "running": running, "borrowed": borrows, "lent": lends, "others_unused": unused}
    return found | {"cap": min(caps, default=None), "slots": slots, "why": _why(own, total, borrows, lends, unused)}


def _why(own: Mapping[str, Any], total: Waiting, borrows: int, lends: int, unused: int) -> str:
    """One or two sentences."""
    if own["paused"]:
        return "We are paused: nothing new of ours starts until we are resumed."
    if borrows:
        back = "Borrowed slots go back when their owners need them: running tasks finish first."
        if not own["nominal"]:
            return f"We have no quota of our own; what runs here is borrowed. {back}"
        left = (
            f"Other tenants leave {unused} of their slots unused. " if unused else "Slots beyond all quotas are free. "
        )
        return left + back
    if total.startable and lends:
        return "Our waiting tasks need workers or classes that are busy, so others use our slots meanwhile."
    if total.limited and lends:
        return "Our waiting tasks are stopped by limits, so others use our slots meanwhile."
    if lends:
        return "We have nothing to start, so others use our slots. They are ours again as soon as we need them."
    if total.limited:
        return "Our waiting tasks are stopped by limits; see the quota."
    if total.startable:
        return "Our waiting tasks start as slots that suit them become free."
    return "Nothing of ours waits."


def _classes(whole: numbers.Numbers, mine: list[dict[str, Any]]) -> list[dict[str, Any]]:
    waiting: dict[int, Waiting] = {}
    for lane in mine:
        waiting.setdefault(lane["class_id"], Waiting()).add(lane)
    found = []
    for row in whole.classes:
        count = waiting.get(row["id"], NOTHING)
        shown = {name: getattr(count, name) for name in ("queued", "running", "limited", "held", "dead")}
        ages = {"oldest_age_s": count.oldest_age_s, "limited_oldest_age_s": count.limited_oldest_age_s}
        found.append({"slug": row["slug"], "slo_queue_s": row["slo_queue_s"]} | shown | ages)
    return found


def _users(tenant_id: int, mine: list[dict[str, Any]], own: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The users with work, the busiest first, each with the maximum that holds for it."""
    counts: dict[int, Waiting] = {}
    for lane in mine:
        counts.setdefault(lane["user_id"], Waiting()).add(lane)
    rows = db.rows("department_users", {"tenant_id": tenant_id, "ids": list(counts)})
    found = [
        {
            "user": row["name"],
            "queued": counts[row["id"]].queued,
            "limited": counts[row["id"]].limited,
            "running": counts[row["id"]].running,
            "max": own["user_max"] if row["max"] is None else row["max"],
        }
        for row in rows
        if counts[row["id"]].queued or counts[row["id"]].running
    ]
    return sorted(found, key=lambda user: (-user["running"], -user["queued"], user["user"]))[:USERS]


def past(caller: Caller, tenant: str, pool: str | None = None) -> dict[str, Any]:
    """Running slots of the last hours for a chart, and slot-hours borrowed and left to others in a day."""
    access.tenant_id(caller, tenant, "read")
    only = access.narrow(caller, tenant)
    nominal = policy.get(caller, "tenant", tenant)["nominal"]
    lately = series.series(only, pool, span_s=SPAN_S, points=POINTS, by="tenant")
    day = series.series(only, pool, span_s=DAY_S, points=288, by="tenant")
    hours = day["step_s"] / 3600
    runs = [point["running"] for point in day["lines"].get(tenant, [])]
    return {
        "since": lately["since"],
        "until": lately["until"],
        "step_s": lately["step_s"],
        "points": [{"at": point["at"], "running": point["running"]} for point in lately["lines"].get(tenant, [])],
        "borrowed_h": sum(max(0.0, run - nominal) for run in runs) * hours,
        "left_h": sum(max(0.0, nominal - run) for run in runs) * hours,
        "hours": len(runs) * hours,
    }


def usage(caller: Caller, tenant: str, days: int = 7) -> list[dict[str, Any]]:
    """What the department's attempts cost by day (UTC), pool, class and user, the newest day first (scope `read`).

    From attempts that are still kept, at most USAGE_DAYS days and USAGE_ROWS rows; cost in the pool's unit.
    """
    tenant_id = access.tenant_id(caller, tenant, "read")
    since = db.rows("usage_since", {"days": max(1, min(days, USAGE_DAYS))})[0]["since"]
    found = db.rows("usage_days", {"tenant_id": tenant_id, "since": since, "limit": USAGE_ROWS})
    for row in found:
        row["cost"] /= MICRO
    return found


def limits(caller: Caller, tenant: str) -> dict[str, Any]:
    """The tenant with its ceilings, and the limits of its users and in its classes (scope `read`)."""
    access.tenant_id(caller, tenant, "read")
    parts = {kind: tenant_limits.list_limits(caller, tenant, kind, 1000).items for kind in ("user", "class")}
    return {"tenant": policy.get(caller, "tenant", tenant), "users": parts["user"], "classes": parts["class"]}
