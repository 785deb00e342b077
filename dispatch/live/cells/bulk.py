"""Bulk jobs in words: what they do, how far they are, what comes next."""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.live import words
from dispatch.live.cells import palette

#: state → icon, tone, word
STATES = {
    "dry_run": ("queued", "idle", "dry run"),
    "canary": ("running", "ok", "canary runs"),
    "running": ("running", "ok", "running"),
    "paused": ("pause", "watch", "paused"),
    "done": ("ok", "ok", "done"),
    "stopped": ("breach", "breach", "stopped itself"),
    "aborted": ("cancelled", "idle", "aborted"),
}
#: action → verb on buttons, what was done, what comes of it
ACTIONS = {
    "requeue": ("Requeue", "requeued", "Each task enters the back of its own queue with a fresh budget of attempts."),
    "discard": (
        "Discard",
        "discarded",
        "Each task ends as cancelled and is never started again. This cannot be undone.",
    ),
    "cancel": (
        "Cancel",
        "cancelled",
        "Waiting tasks end at once, running ones at their next heartbeat. This cannot be undone.",
    ),
}
BRAKES = {"rate": "the rate", "room": "the room in flight", "fleet": "what the fleet starts just now"}
ACTIVE = ("running", "canary", "paused")


def cells(snapshot: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """What tells the page of a job that it moved."""
    return {"bulk.version": version(job)}


def row(job: Mapping[str, Any]) -> dict[str, Any]:
    """One job of the list, and the head of its page."""
    icon, tone, word = STATES[job["state"]]
    verb, done, _ = ACTIONS[job["action"]]
    touched = job["done"] + job["skipped_count"]
    return {
        "id": job["id"],
        "title": f"{verb} {words.plural(job['matched'], 'task')}",
        "icon": icon,
        "tone": tone,
        "word": word,
        "filter": filter_text(job["filter"]),
        "by": job["by"],
        "reason": job["reason"],
        "created_at": job["created_at"],
        "finished_at": job["finished_at"],
        "matched": job["matched"],
        "done": job["done"],
        "done_word": done,
        "skipped": job["skipped_count"],
        "left": max(0, job["matched"] - touched),
        "well": job["ended_well"],
        "again": job["dead_again"],
        "in_flight": max(0, job["done"] - job["ended_well"] - job["dead_again"]),
        "part": f"{100 * touched / job['matched']:.1f}" if job["matched"] else "100.0",
        "version": version(job),
    }


def version(job: Mapping[str, Any]) -> str:
    """Changes with every step of the job."""
    names = ("state", "done", "skipped_count", "ended_well", "dead_again")
    return ".".join(str(job[name]) for name in names)


def filter_text(given: Mapping[str, Any]) -> str:
    """The frozen filter in the words of the search line."""
    parts = []
    for name, value in given.items():
        text = str(value)
        if name in ("id", "fingerprint") and text.count(",") > 1:
            text = f"{words.count(text.count(',') + 1)} of them"
        parts.append(f"age>{value}s" if name == "min_age_s" else f"{name}:{text}")
    return " ".join(parts)


def split(found: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """The dry run: bar and sums, eligible ones by tenant, skipped ones by reason."""
    ready = found["ready"]
    skipped = sum(row["count"] for row in found["skipped"])
    whole = max(1, ready + skipped)
    by_class = _sums(found["eligible"], "class")
    start, parts = 0.0, []
    for name, count in by_class:
        width = 100 * count / whole
        parts.append({"x": f"{start:.2f}%", "w": f"{width:.2f}%", "c": colours.get(name, palette.OTHER), "name": name})
        start += width
    return {
        "parts": parts,
        "gap_x": f"{start:.2f}%",
        "gap_w": f"{100 - start:.2f}%" if skipped else "0%",
        "ready": ready,
        "skipped": skipped,
        "ready_by": ", ".join(f"{name} {words.count(count)}" for name, count in _sums(found["eligible"], "tenant")[:6]),
        "skipped_by": ", ".join(f"{words.count(count)} {name}" for name, count in _sums(found["skipped"], "verdict")),
        "rows": [
            row | {"c": colours.get(row["class"], palette.OTHER)} for row in [*found["eligible"], *found["skipped"]]
        ],
    }


def waits(delays: Sequence[tuple[str, float | None]]) -> str:
    """`standard +22 s at most, batch not known: none of it starts just now`."""
    return ", ".join(
        f"{name} +{words.age(seconds)} at most"
        if seconds is not None
        else f"{name} not known, none of it starts just now"
        for name, seconds in delays
    )


def plan(estimate: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as a sentence and a line: canary first, watched, then the rest."""
    count, canary, seconds = estimate["count"], estimate["canary"], estimate["seconds"]
    if not count:
        return {"text": "Nothing is left to do.", "line": "", "canary_w": 0}
    if seconds is None:
        return {"text": "How long it takes is not known: none of these classes starts tasks just now.", "line": ""}
    binds, watched = estimate["binds"], estimate["canary_s"] or 0.0
    text = f"about {words.age(seconds)}, held back by {BRAKES[binds]}"
    if binds != "rate" and estimate["brakes"].get("rate"):
        text += ", not by the rate"
    whole = max(seconds, 0.001)
    at = 90 * watched / whole if canary else 0
    level = 44 - 38 * canary / count
    line = f"M0 44L1 {level:.1f}L{at:.1f} {level:.1f}L90 6" if canary else "M0 44L90 6"
    return {
        "text": text,
        "line": line,
        "canary_w": f"{at:.1f}",
        "level": f"{level:.1f}",
        "canary": canary,
        "end": count,
    }


def _sums(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[name]] = sums.get(row[name], 0) + row["count"]
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))
