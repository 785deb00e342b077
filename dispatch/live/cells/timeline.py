"""The life of one task as a drawing: thin where it waited, solid where it ran, one lane per attempt with its progress.

Places are percent of the time from submit to end (or now), so that the drawing is as wide as its panel.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dispatch.live import words
from dispatch.live.cells import tasks as rows
from dispatch.live.cells.dead import error_line

MOST = 6  #: attempts drawn, the latest ones
LABEL = 9.0  #: percent that a duration needs to be written
LEAST = 0.4  #: percent of the thinnest mark
LANE, TOP = 38, 56  #: pixels


def attempts(task: Mapping[str, Any], now: datetime) -> list[dict[str, Any]]:
    """Every attempt, oldest first: waits, durations, progress, cost and outcome."""
    found, free = [], task["created_at"]
    for entry in task["history"]:
        if entry.get("started_at") is None:
            continue
        found.append(_ended(entry, free))
        free = entry["at"]
    lease = task["lease"]
    if lease and lease["delivered_at"]:
        found.append(_running(lease, free, now))
    return found


def _ended(entry: Mapping[str, Any], free: datetime) -> dict[str, Any]:
    icon, tone = rows.OUTCOMES.get(entry["event"], ("right", "idle"))
    error = entry.get("error")
    kind = error.get("type") if isinstance(error, Mapping) else None
    return {
        "number": entry["attempt"],
        "worker": entry["worker"],
        "worker_id": entry.get("worker_id"),
        "token": entry.get("token"),
        "start": entry["started_at"],
        "end": entry["at"],
        "waited": words.age((entry["started_at"] - free).total_seconds()),
        "ran": words.age((entry["at"] - entry["started_at"]).total_seconds()),
        "fraction": _fraction(entry.get("progress")),
        "note": _note(entry.get("progress")),
        "cost": None if entry.get("cost") is None else words.decimal(entry["cost"]),
        "icon": icon,
        "tone": tone,
        "word": entry["event"].replace("_", " "),
        "error": str(kind or "") or error_line(error),
        "counted": "counted" if entry.get("counted") else "not counted",
        "late": bool(entry.get("late")),
    }


def _running(lease: Mapping[str, Any], free: datetime, now: datetime) -> dict[str, Any]:
    start = lease["delivered_at"]
    return {
        "number": lease["attempt"],
        "worker": lease["worker"],
        "worker_id": lease["worker_id"],
        "token": lease.get("token"),
        "start": start,
        "end": now,
        "waited": words.age((start - free).total_seconds()),
        "ran": words.age((now - start).total_seconds()),
        "fraction": _fraction(lease["progress"]),
        "note": _note(lease["progress"]),
        "cost": None,
        "icon": "running",
        "tone": "ok",
        "word": "running",
        "error": "",
        "counted": "",
        "late": False,
    }


def draw(task: Mapping[str, Any], found: Sequence[Mapping[str, Any]], now: datetime) -> dict[str, Any] | None:
    """Marks of the state line and of each attempt; None where nothing has happened yet."""
    begin, end = task["created_at"], task["finished_at"] or now
    span = (end - begin).total_seconds()
    if span <= 0:
        return None

    def place(moment: datetime) -> float:
        part: float = (moment - begin).total_seconds() / span
        return min(100.0, max(0.0, 100 * part))

    marks, free = [], begin
    for one in found:
        marks += _mark(place(free), place(one["start"]), one["waited"], "wait")
        marks += _mark(place(one["start"]), place(one["end"]), one["ran"], "run")
        free = one["end"]
    if free < end:
        marks += _mark(place(free), 100.0, words.age((end - free).total_seconds()), "wait")
    lanes = [_lane(one, place, number) for number, one in enumerate(found[-MOST:])]
    return {
        "marks": marks,
        "lanes": lanes,
        "height": TOP + LANE * len(lanes),
        "begin": begin,
        "end": end,
        "live": task["finished_at"] is None,
        "hidden": len(found) - len(lanes),
    }


def _mark(start: float, end: float, text: str, kind: str) -> list[dict[str, str]]:
    width = max(LEAST, end - start)
    middle = f"{start + width / 2:.2f}%" if width >= LABEL else ""
    return [{"x": f"{start:.2f}%", "w": f"{width:.2f}%", "text": text, "at": middle, "kind": kind}]


def _lane(one: Mapping[str, Any], place: Any, number: int) -> dict[str, Any]:
    start, end = place(one["start"]), place(one["end"])
    width = max(LEAST, end - start)
    fraction = one["fraction"]
    end, room = start + width, 20  # percent: the words stand behind the run, before it, or inside, where there is room
    at, anchor = (
        (end + 1, "start") if end < 100 - room else (start - 1, "end") if start > room else (start + 1, "start")
    )
    return {
        "number": one["number"],
        "x": f"{start:.2f}%",
        "w": f"{width:.2f}%",
        "y": TOP + LANE * number,
        "line": f"M0 28L100 {28 - 26 * (fraction or 0):.1f}",
        "area": f"M0 28L100 {28 - 26 * (fraction or 0):.1f}V28z",
        "text": (f"{100 * fraction:.0f} %, " if fraction is not None else "") + one["word"],
        "worker": one["worker"],
        "at": f"{at:.2f}%",
        "anchor": anchor,
    }


def _fraction(progress: Any) -> float | None:
    value = progress.get("fraction") if isinstance(progress, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _note(progress: Any) -> str:
    note = progress.get("note") if isinstance(progress, Mapping) else None
    return str(note or "")
