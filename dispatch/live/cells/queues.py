"""The class × tenant grid and the table of queues, most of their SLO used first."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels, palette


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Grid cells `g.<class>.<tenant>.…`, margins, and one row per queue with work."""
    classes, tenants, totals = snapshot["classes"], snapshot["tenants"], snapshot["totals"]
    slo = {row["slug"]: row["slo_queue_s"] for row in classes}
    found: dict[str, Any] = {
        "grid.classes": [row["slug"] for row in classes],
        "grid.tenants": [row["slug"] for row in tenants],
        "grid.none": not (classes and tenants),
        "q.sum": f"{words.count(totals['queued'])} queued, {words.count(totals['running'])} running",
    }
    grid = {(row["class"], row["tenant"]): row for row in snapshot["grid"]}
    colours = palette.palette(slo)
    for row in classes:
        key = f"r.{row['slug']}"
        found |= {
            f"{key}.name": row["slug"],
            f"{key}.c": colours[row["slug"]],
            f"{key}.slo": f"SLO {words.limit(slo[row['slug']])}" if slo[row["slug"]] else "no SLO",
            f"{key}.queued": words.count(row["queued"]),
            f"{key}.running": f"{words.count(row['running'])} running",
        }
        for tenant in tenants:
            queue = grid.get((row["slug"], tenant["slug"]))
            prefix = f"g.{row['slug']}.{tenant['slug']}"
            found.update((f"{prefix}.{name}", value) for name, value in _cell(queue, slo[row["slug"]]).items())
    for tenant in tenants:
        found[f"h.{tenant['slug']}"] = f"{tenant['slug']} · {words.count(tenant['queued'])}"
    return found | _health(snapshot, slo) | _table(snapshot, slo, colours)


def _cell(queue: Mapping[str, Any] | None, slo_s: float | None) -> dict[str, Any]:
    if queue is None:
        return {
            "age": words.MISSING,
            "text": "no demand",
            "tone": "",
            "calm": True,
            "icon": "ok",
            "bar": "0%",
            "quiet": True,
        }
    part = levels.used(queue["oldest_age_s"], slo_s)
    tone = levels.tone(part)
    waiting = f"{words.count(queue['queued'])} queued, {words.count(queue['running'])} run"
    return {
        "age": words.age(queue["oldest_age_s"]),
        "text": waiting if queue["queued"] or queue["running"] else "no demand",
        "tone": tone,
        "calm": not tone,
        "icon": tone or "ok",
        "bar": shapes.pct(100 * (part or 0) / 1.5),
        "quiet": part is None,
    }


def _health(snapshot: Mapping[str, Any], slo: Mapping[str, float | None]) -> dict[str, Any]:
    tones = [levels.health(row["oldest_age_s"], slo.get(row["class"]))[2] for row in snapshot["grid"]]
    past, close, inside = (tones.count(word) for word in ("past SLO", "close", "inside"))
    return {
        "q.past": f"{past} past SLO",
        "q.past.none": not past,
        "q.close": f"{close} above 80 %",
        "q.close.none": not close,
        "q.inside": f"{inside} inside",
    }


def _table(snapshot: Mapping[str, Any], slo: Mapping[str, float | None], colours: Mapping[str, str]) -> dict[str, Any]:
    busy = [row for row in snapshot["grid"] if row["queued"] or row["running"]]
    busy.sort(key=lambda row: (-(levels.used(row["oldest_age_s"], slo.get(row["class"])) or 0), -row["queued"]))
    most = max([row["running"] for row in busy] or [1]) or 1
    found: dict[str, Any] = {"queues": [], "queues.some": bool(busy), "queues.sum": words.plural(len(busy), "queue")}
    rows: list[str] = found["queues"]
    for row in busy:
        key = f"{row['class']}~{row['tenant']}"
        rows.append(key)
        icon, tone, word = levels.health(row["oldest_age_s"], slo.get(row["class"]))
        if row["oldest_age_s"] is None and row["queued"]:
            icon, word = "pause", "at a limit"  # what waits is held by a limit of its own, or paused
        part = levels.used(row["oldest_age_s"], slo.get(row["class"]))
        found |= {
            f"q.{key}.name": f"{row['class']} · {row['tenant']}",
            f"q.{key}.c": colours.get(row["class"], palette.OTHER),
            f"q.{key}.icon": icon,
            f"q.{key}.tone": tone,
            f"q.{key}.health": word,
            f"q.{key}.oldest": words.age(row["oldest_age_s"]),
            f"q.{key}.used": words.MISSING if part is None else f"{part * 100:,.0f} %",
            f"q.{key}.queued": words.count(row["queued"]),
            f"q.{key}.running": words.count(row["running"]),
            f"q.{key}.bar": shapes.pct(100 * row["running"] / most),
        }
    return found
