"""The class × tenant grid, and the table of queues grouped as asked, most of their SLO used first."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import levels, palette


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Grid cells `g.<class>.<tenant>.…` and margins."""
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
    return found | _health(snapshot, slo)


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


def table(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """One row per group of queues (services/queue.py `groups`), what needs a hand first; `only` keeps those."""
    slo = {row["slug"]: row["slo_queue_s"] for row in snapshot["classes"]}
    colours = palette.palette(slo)
    rows = [_group(row, own["by"], slo, colours) for row in own["rows"]]
    shown = [row for row in rows if row["tone"] in ("watch", "breach")] if own["only"] == "trouble" else rows
    shown.sort(key=lambda row: -row.pop("order"))
    most = max([row["run"] for row in shown] or [1]) or 1
    found: dict[str, Any] = {"queues": [], "queues.some": bool(shown)}
    found["queues.sum"] = f"{words.count(len(shown))} of {words.count(len(rows))} with work"
    for place, row in enumerate(shown):
        key = row.pop("key") or str(place)
        found["queues"].append(key)
        row["bar"] = shapes.pct(100 * row.pop("run") / most)
        found.update((f"q.{key}.{name}", value) for name, value in row.items())
    return found


def _group(
    row: Mapping[str, Any], by: str, slo: Mapping[str, float | None], colours: Mapping[str, str]
) -> dict[str, Any]:
    names = row["name"] if isinstance(row["name"], tuple) else (row["name"],)
    known = by in ("queue", "class")
    limit = slo.get(names[0]) if known else None
    icon, tone, word = levels.health(row["oldest_age_s"], limit)
    if row["oldest_age_s"] is None and row["queued"]:
        icon, tone, word = "lock", "watch", "stopped"  # what waits is held by a limit of its own, or paused
    elif by != "queue" and not known:
        icon, tone, word = ("queued", "", "waits") if row["queued"] else ("none", "idle", "none waiting")
    part = levels.used(row["oldest_age_s"], limit)
    return {
        "key": "" if by in ("user", "tool") else "/".join(names),
        "order": (part or 0) * 1e9 + (row["oldest_age_s"] or 0) + (1e6 if tone == "watch" else 0),
        "name": " · ".join("no user" if name == "-" else name for name in names),
        "c": colours.get(names[0], palette.OTHER) if known else None,
        "icon": icon,
        "tone": tone,
        "health": word,
        "oldest": words.age(row["oldest_age_s"]),
        "used": words.MISSING if part is None else f"{part * 100:,.0f} %",
        "queued": words.count(row["queued"]),
        "running": words.count(row["running"]),
        "run": row["running"],
        "limit": ", ".join(row["limits"]) or ("waiting its turn" if row["queued"] else ""),
    }
