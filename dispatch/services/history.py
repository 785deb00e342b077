"""The past of the queues as the charts of the console draw it: services/series.py in columns, with what was changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dispatch.errors import Invalid
from dispatch.services import access, audit_text
from dispatch.services import series as samples
from dispatch.services.messages import Caller
from dispatch.store import db

#: name → length in seconds, values of a line
SPANS: Mapping[str, tuple[int, int]] = {"15m": (900, 90), "1h": (3600, 120), "3h": (10_800, 180), "24h": (86_400, 144)}
#: line → field of a point
LINES = {
    "oldest": "oldest_age_s",
    "p50": "wait_p50_s",
    "p95": "wait_p95_s",
    "queued": "queued",
    "running": "running",
    "dispatched": "dispatched_per_s",
    "share": "share",
    "target": "share_target",
}

Line = list[float | None]


def series(
    caller: Caller, pool: str, span: str, tenant: str | None = None, slos: Mapping[str, float | None] | None = None
) -> dict[str, Any]:
    """Lines by class, one value a step and oldest first, None where nothing was seen (scope `read`).

    `classes` maps a class to its `slo_s` (out of `slos`), LINES, and `arrived` a second: what was dispatched and what
    the queue grew by. `end` is when the last step ends (ms since 1970); `marks` are changes of the policy. With a
    tenant, and for who does not see all, the lines are of what the tenant has in each class.
    """
    if span not in SPANS:
        raise Invalid(("span", f"must be one of {', '.join(SPANS)}"))
    length_s, points = SPANS[span]
    viewer = access.narrow(caller, tenant)
    by = "class" if access.everywhere(viewer) else "queue"
    found = samples.series(viewer, pool, span_s=length_s, points=points, by=by)
    step_s = found["step_s"]
    steps = length_s // step_s
    end = (int(found["until"].timestamp()) // step_s + 1) * step_s
    lines = {slug: _columns(line, end, step_s, steps) for slug, line in found["lines"].items()}
    for slug, one in lines.items():
        one["slo_s"] = (slos or {}).get(slug)
    return {"step_s": step_s, "classes": lines, "marks": _marks(viewer, length_s), "end": end * 1000}


def _columns(points: list[dict[str, Any]], end: int, step_s: int, steps: int) -> dict[str, Any]:
    found: dict[str, Any] = {name: [None] * steps for name in (*LINES, "arrived")}
    before: tuple[int, float] | None = None
    for point in points:
        place = steps - (end - _seconds(point["at"])) // step_s
        if not 0 <= place < steps:
            continue
        for name, field in LINES.items():
            found[name][place] = _short(point[field])
        if before and before[0] == place - 1:
            grown = (point["queued"] - before[1]) / step_s
            found["arrived"][place] = _short(max(0.0, point["dispatched_per_s"] + grown))
        before = (place, point["queued"])
    return found


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _marks(caller: Caller, span_s: int) -> list[dict[str, Any]]:
    rows = db.rows("queue_marks", {"span_s": span_s, "tenants": access.visible_tenants(caller)})
    return [
        {"at": round(row["at"].timestamp() * 1000), "text": f"{audit_text.sentence(row)}, {row['actor_name']}"}
        for row in rows
    ]


def shares(caller: Caller, pool: str) -> dict[str, dict[str, float | None]]:
    """Each class's part 0..1 of the slot time of the last `hour` and `day`; None where nothing was sampled yet."""
    if not access.everywhere(caller):
        return {}
    rows = db.rows("sample_shares", {"pool": pool})
    sums = {name: sum(row[f"{name}_s"] for row in rows) for name in ("hour", "day")}
    return {
        row["slug"]: {name: row[f"{name}_s"] / whole if whole else None for name, whole in sums.items()} for row in rows
    }


def dead_kinds(caller: Caller, pool: str) -> dict[str, int]:
    """`groups` of dead letters by what they died of, and `new_1h`, those that began within the last hour."""
    found = db.one("numbers_dead_kinds", {"pool": pool, "tenants": access.visible_tenants(caller)})
    return found or {"groups": 0, "new_1h": 0}
