"""The fairness strip (classes) and the tenants beside it, with their editable weights."""

from collections.abc import Iterable, Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels, palette


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """One row per class and per tenant."""
    classes, tenants = snapshot["classes"], snapshot["tenants"]
    top = scale(value for row in classes for value in (row["share_target"], row["share_achieved"]))
    colours = palette.palette(row["slug"] for row in classes)
    found: dict[str, Any] = {
        "classes": [row["slug"] for row in classes],
        "classes.some": bool(classes),
        "tenants": [row["slug"] for row in tenants],
        "tenants.some": bool(tenants),
        "scale.mid": words.decimal(top * 50, 0 if (top * 50).is_integer() else 1),
        "scale.top": f"{words.decimal(top * 100, 0)} %",
    }
    past: Mapping[str, Mapping[str, float | None]] = snapshot.get("shares", {})
    for row in classes:
        cells = _class(row, colours[row["slug"]], top)
        cells |= {name: words.percent(past.get(row["slug"], {}).get(name)) for name in ("hour", "day")}
        found.update((f"c.{row['slug']}.{key}", value) for key, value in cells.items())
    most = max([row["running"] for row in tenants] + [row["nominal"] or 0 for row in tenants] + [1])
    for row in tenants:
        found.update((f"n.{row['slug']}.{key}", value) for key, value in _tenant(row, most).items())
    return found


def scale(shares: Iterable[float | None]) -> float:
    """The end of the shared scale: the next quarter above the largest share."""
    largest = max((share for share in shares if share is not None), default=0)
    return next(top for top in (0.25, 0.5, 0.75, 1.0) if largest <= top or top == 1.0)


def _class(row: Mapping[str, Any], colour: str, top: float) -> dict[str, Any]:
    part = levels.used(row["oldest_age_s"], row["slo_queue_s"])
    tone = levels.tone(part)
    demand = row["demand"]
    target, achieved = row["share_target"] or 0, row["share_achieved"] or 0
    return {
        "name": row["slug"],
        "c": colour,
        "icon": "queued" if demand else "pause" if row["queued"] else "none",
        "tone": "" if demand else "idle",
        "queued": f"{words.count(row['queued'])} queued" if demand or row["queued"] else "no demand",
        "oldest": words.age(row["oldest_age_s"]),
        "oldest.tone": tone,
        "oldest.icon": tone or "ok",
        "oldest.calm": not tone,
        "slo": f"of {words.limit(row['slo_queue_s'])}"
        if row["slo_queue_s"] and row["oldest_age_s"] is not None
        else "",
        "running": words.count(row["running"]),
        "rate": words.decimal(row["dispatched_per_s"]),
        "target": words.percent(row["share_target"]) if demand else words.MISSING,
        "share": words.percent(row["share_achieved"]) if demand or achieved else words.MISSING,
        **_burn(row),
        "deficit": words.signed(row["deficit"]) if demand else words.MISSING,
        "idle": demand or achieved > 0,
        "demanded": not demand,
        "weight": words.weight(row["weight"]),
        "version": row["version"],
        **shapes.share_bar(achieved, target if demand else achieved, top),
    }


def _burn(row: Mapping[str, Any]) -> dict[str, Any]:
    """How fast the last hour used up what may miss the SLO of the wait: 1 is just sustainable."""
    burn = ((row.get("slo") or {}).get("queue") or {}).get("1h", {}).get("burn")
    tone = "" if burn is None or burn <= 1 else "watch" if burn <= 6 else "breach"
    return {
        "burn": words.MISSING if burn is None else f"{words.decimal(burn)} ×",
        "burn.tone": tone,
        "burn.icon": tone or "ok",
        "burn.calm": not tone,
    }


def _tenant(row: Mapping[str, Any], most: int) -> dict[str, Any]:
    quota = row["nominal"] or row["max"]
    return {
        "name": row["slug"],
        "queued": words.count(row["queued"]),
        "oldest": words.age(row["oldest_age_s"]),
        "running": words.count(row["running"]),
        "quota": f"of {words.count(quota)}" if quota else "",
        "bar": shapes.pct(100 * row["running"] / most),
        "tick": shapes.pct(100 * (quota or 0) / most),
        "noquota": not quota,
        "weight": words.weight(row["weight"]),
        "version": row["version"],
    }
