"""The queue age of every class now, against its SLO; the lines beside it are drawn by static/js/charts.js."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import words
from dispatch.live.cells import levels, palette


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """One small chart per class."""
    classes = snapshot["classes"]
    colours = palette.palette(row["slug"] for row in classes)
    found: dict[str, Any] = {"ages": [row["slug"] for row in classes], "ages.some": bool(classes)}
    for row in classes:
        chart = _chart(row) | {"c": colours[row["slug"]]}
        found.update((f"a.{row['slug']}.{key}", value) for key, value in chart.items())
    return found


def _chart(row: Mapping[str, Any]) -> dict[str, Any]:
    now = row["oldest_age_s"]
    tone = levels.tone(levels.used(now, row["slo_queue_s"]))
    return {
        "name": row["slug"],
        "now": words.age(now) if now is not None else ("none waiting" if row["demand"] else "no demand"),
        "tone": tone if now is not None else "idle",
        "icon": tone or "ok",
        "calm": not tone,
    }
