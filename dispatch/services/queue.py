"""One queue in detail (a class, or a tenant's part of it), and all queues by what they are grouped by (scope `read`).

From the same reading as the live page (services/numbers.py), so that ages and stops agree with it. `next` predicts:
the queues of the class take turns by their tenants' weights, and start at the pace of the class's last minute.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from dispatch.errors import Invalid, NotFound
from dispatch.services import access, numbers, policy
from dispatch.services.messages import Caller
from dispatch.services.numbers import Numbers, Row, Waiting
from dispatch.store import db

WINDOW_S = 60.0
NEXT = 20  #: tasks predicted
MOST_LANES = 2000  #: lanes looked at for it, the longest waiting first
MOST_GROUPS = 100  #: rows of a grouping
GROUPS = ("queue", "class", "tenant", "user", "tool")


def queue(caller: Caller, work_class: str, tenant: str | None = None) -> dict[str, Any]:
    """Policy, counts, who uses it, and what starts next; NotFound for a class or tenant that this caller cannot see."""
    shown = policy.get(caller, "class", work_class)
    owner = policy.get(caller, "tenant", tenant) if tenant else None
    viewer = access.narrow(caller, tenant)
    with db.atomic():
        found = numbers.read(viewer, shown["pool"], WINDOW_S)
        row = next((row for row in found.classes if row["slug"] == work_class), None)
        if row is None:
            raise NotFound("There is no such class.")
        lanes = [lane for lane in found.lanes if lane["class_id"] == row["id"]]
        rate = db.rows("explain_rate", {"pool_id": found.pool["id"], "class_id": row["id"]})[0]["starts_per_s"]
        names = _names(lanes)
        tenants = {one["id"]: one["slug"] for one in found.tenants}
        owed = numbers.deficits(found.pool["id"], [row]) if found.visible is None else {}
        return {
            "class": shown,
            "tenant": owner,
            "count": _sum(lanes),
            "promoted": sum(lane["promoted"] for lane in lanes),
            "rate": rate,
            "share_target": found.targets.get(row["id"]) if not tenant else None,
            "share_achieved": found.achieved.get(row["id"]) if not tenant else None,
            "deficit": owed.get(row["id"]) if not tenant else None,
            "tenants": _grouped(lanes, lambda lane: tenants.get(lane["tenant_id"])),
            "users": _grouped(lanes, lambda lane: (tenants.get(lane["tenant_id"]), names["user", lane["user_id"]])),
            "next": _next(lanes, rate, shown["max_wait_s"]),
            "limits": _limits(lanes),
        }


def groups(caller: Caller, asked: str, pool: str | None = None) -> dict[str, Any]:
    """Counts of the pool's queues added up by queue (class and tenant), class, tenant, user or tool.

    `asked` is one of GROUPS, with `.trouble` behind it where only those that need a hand are wanted.
    """
    by, _, only = asked.partition(".")
    if by not in GROUPS or only not in ("", "trouble"):
        raise Invalid(("by", f"must be one of {', '.join(GROUPS)}"))
    with db.atomic():
        found = numbers.read(caller, pool, WINDOW_S)
        lanes = found.lanes
        names = _names(lanes)
        items = _grouped(lanes, _key(found, by, names)) if by != "tool" else _by_tool(lanes, names)
    return {"by": by, "only": only, "rows": items[:MOST_GROUPS]}


def _key(found: Numbers, by: str, names: dict[tuple[str, int], str]) -> Any:
    tenants = {row["id"]: row["slug"] for row in found.tenants}
    classes = {row["id"]: row["slug"] for row in found.classes}
    return {
        "queue": lambda lane: (classes.get(lane["class_id"]), tenants.get(lane["tenant_id"])),
        "class": lambda lane: classes.get(lane["class_id"]),
        "tenant": lambda lane: tenants.get(lane["tenant_id"]),
        "user": lambda lane: (tenants.get(lane["tenant_id"]), names["user", lane["user_id"]]),
    }[by]


def _by_tool(lanes: Iterable[Row], names: dict[tuple[str, int], str]) -> list[dict[str, Any]]:
    pairs = [(names["tool", tool], lane) for lane in lanes for tool in lane["tools"]]
    return _rows(
        (name, [lane for key, lane in pairs if key == name]) for name in dict.fromkeys(key for key, _ in pairs)
    )


def _grouped(lanes: Iterable[Row], key: Any) -> list[dict[str, Any]]:
    found: dict[Hashable, list[Row]] = {}
    for lane in lanes:
        if (name := key(lane)) is not None:
            found.setdefault(name, []).append(lane)
    return _rows(found.items())


def _rows(pairs: Iterable[tuple[Any, list[Row]]]) -> list[dict[str, Any]]:
    items = [{"name": name, **_sum(lanes), "limits": _limits(lanes)} for name, lanes in pairs]
    busy = [item for item in items if item["queued"] or item["running"] or item["scheduled"] or item["held"]]
    return sorted(busy, key=lambda item: (-(item["oldest_age_s"] or -1), -item["queued"], str(item["name"])))


def _sum(lanes: Iterable[Row]) -> dict[str, Any]:
    count = Waiting()
    for lane in lanes:
        count.add(lane)
    shown = ("queued", "scheduled", "held", "running", "limited", "oldest_age_s", "limited_oldest_age_s")
    return {name: getattr(count, name) for name in shown}


def _limits(lanes: Iterable[Row]) -> list[str]:
    """What stops the queues among these that wait but may not start, each kind once."""
    return sorted({lane["stop"] for lane in lanes if lane["stopped"] and lane["queued"] and lane["stop"]})


def _next(lanes: list[dict[str, Any]], rate: float, max_wait_s: float | None) -> list[dict[str, Any]]:
    open_ = sorted(
        (lane for lane in lanes if lane["queued"] and not lane["stopped"]), key=lambda lane: -(lane["age_s"] or 0)
    )[:MOST_LANES]
    items = db.rows("queue_next", {"lane_ids": [lane["id"] for lane in open_], "each": NEXT}) if open_ else []
    for place, item in enumerate(items, 1):
        item["place"] = place
        item["starts_in_s"] = place / rate if rate > 0 else None
        left = None if max_wait_s is None else max_wait_s - item["since_enqueued_s"]
        item["promoted_in_s"] = None if left is None else max(0.0, left)
    return items


def _names(lanes: Iterable[Row]) -> dict[tuple[str, int], str]:
    users = sorted({lane["user_id"] for lane in lanes})
    tools = sorted({tool for lane in lanes for tool in lane["tools"]})
    return {(row["kind"], row["id"]): row["name"] for row in db.rows("queue_names", {"users": users, "tools": tools})}
