"""The queue age of every class over the last 15 minutes, on one logarithmic scale, against its SLO."""

import math
from collections.abc import Mapping
from typing import Any

from dispatch.live import words
from dispatch.live.cells import levels, palette

HOUR, DAY = 3600.0, 86_400.0
HEIGHT = 84.0  #: units of the drawing, whose width is 100


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """One small chart per class; all share both axes."""
    classes, past = snapshot["classes"], snapshot.get("history", {})
    known = [age for row in classes for age in past.get(row["slug"], []) if age is not None]
    top = DAY if max([*known, *(row["oldest_age_s"] or 0 for row in classes)], default=0) > HOUR else HOUR
    colours = palette.palette(row["slug"] for row in classes)
    found: dict[str, Any] = {
        "ages": [row["slug"] for row in classes],
        "ages.none": not known,
        "ages.scale": "day" if top == DAY else "hour",
        "ages.grid": "".join(f"M0 {height(age, top):.1f}H100" for age in (1, 10, 60, 600, HOUR, DAY) if age <= top),
    }
    for row in classes:
        chart = _chart(row, past.get(row["slug"], []), top)
        found.update((f"a.{row['slug']}.{key}", value) for key, value in (chart | {"c": colours[row["slug"]]}).items())
    return found


def height(age_s: float, top: float) -> float:
    """Where an age lies in the drawing: 1 s at the bottom, `top` at the upper edge."""
    return HEIGHT * (1 - math.log(min(max(age_s, 1.0), top)) / math.log(top))


def line(ages: list[float | None], top: float) -> str:
    """The ages as path data; a gap where nothing waited, a dot where a value stands alone."""
    step, path, pen = 100 / max(1, len(ages) - 1), [], "M"
    for place, age in enumerate(ages):
        if age is None:
            pen = "M"
            continue
        path.append(f"{pen}{place * step:.1f} {height(age, top):.1f}" + ("h.5" if pen == "M" else ""))
        pen = "L"
    return "".join(path)


def _chart(row: Mapping[str, Any], ages: list[float | None], top: float) -> dict[str, Any]:
    slo, now = row["slo_queue_s"], row["oldest_age_s"]
    tone = levels.tone(levels.used(now, slo))
    known = [age for age in ages if age is not None]
    return {
        "name": row["slug"],
        "now": words.age(now) if now is not None else ("none waiting" if row["demand"] else "no demand"),
        "tone": tone if now is not None else "idle",
        "icon": tone or "ok",
        "calm": not tone,
        "line": line(ages, top),
        "slo": f"M0 {height(slo, top):.1f}H100" if slo else "",
        "limit": f"SLO {words.limit(slo)}" if slo else "",
        "spoken": f"highest in 15 minutes {words.age(max(known))}" if known else "nothing waited in 15 minutes",
    }
