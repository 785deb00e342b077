"""Rows of workers: state, the lease that ends first, slots by class, progress. Those that need a hand come first."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import shapes, words
from dispatch.live.cells import palette

TOP = 8  #: rows on the Overview
STATES = {
    "lost": ("lost", "breach"),
    "stale": ("lost", "breach"),
    "stalled": ("stalled", "watch"),
    "late": ("watch", "watch"),
    "quarantined": ("held", "idle"),
    "paused": ("pause", "idle"),
    "draining": ("draining", "idle"),
    "live": ("ok", "ok"),
    "idle": ("ok", "ok"),
    "gone": ("none", "idle"),
}
#: filter → states of its rows
ONLY = {
    "trouble": ("lost", "stale", "stalled", "late"),
    "steered": ("draining", "paused", "quarantined"),
    "live": ("live", "idle"),
}
ORDER = {state: place for place, state in enumerate(STATES)}


def top(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the Overview."""
    rest = len(snapshot["workers"]) - TOP
    return _rows(snapshot, TOP) | {"workers.rest": f"and {words.plural(rest, 'more')}".rstrip("s") if rest > 0 else ""}


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """All rows, the fleet's slots in one strip, and who needs a hand most."""
    return _rows(snapshot, None) | _strip(snapshot) | answer(snapshot)


def only(snapshot: Mapping[str, Any], own: str) -> dict[str, Any]:
    """The rows of a filter: those in trouble, late, or steered by somebody."""
    kept = [row for row in snapshot["workers"] if row["state"] in ONLY[own]]
    return {"workers": _rows({**snapshot, "workers": kept}, None)["workers"], "workers.some": bool(kept)}


def answer(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The worker that needs a hand most, in a sentence with its cause."""
    rows = [row for row in snapshot["workers"] if row["state"] in ONLY["trouble"]]
    tone, icon, text, cause = "ok", "ok", "No worker needs a hand", "All that are known beat and make progress."
    if not snapshot["workers"]:
        tone, icon, text, cause = "idle", "none", "No worker yet", "Agents appear here when they register."
    elif rows:
        row = min(rows, key=lambda row: (ORDER[row["state"]], row["name"]))
        icon, tone = STATES[row["state"]]
        held = words.plural(row["running"], "lease")
        silent = f"last heard {words.age(row['last_seen_s'])} ago"
        told = {
            "stalled": ("is alive but stalled", f"It renews {held}; no progress for {_oldest_progress(row)}."),
            "late": ("is late", f"{silent.capitalize()}; it holds {held}."),
        }
        words_, cause = told.get(row["state"], ("is lost", f"{silent.capitalize()}; {held} to take back."))
        more = f", and {words.count(len(rows) - 1)} more need a hand" if len(rows) > 1 else ""
        text = f"{row['name']} {words_}{more}"
    return {"answer.tone": tone, "answer.icon": icon, "answer.text": text, "answer.cause": cause}


def _oldest_progress(row: Mapping[str, Any]) -> str:
    return str(_progress(row["leases"])["progress"])


def _rows(snapshot: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    colours = palette.palette(row["slug"] for row in snapshot["classes"])
    workers = sorted(snapshot["workers"], key=lambda row: (ORDER.get(row["state"], 99), row["name"]))[:most]
    found: dict[str, Any] = {"workers": [str(row["id"]) for row in workers], "workers.some": bool(workers)}
    for row in workers:
        found.update((f"w.{row['id']}.{key}", value) for key, value in _worker(row, colours).items())
    return found


def _worker(row: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    icon, tone = STATES.get(row["state"], ("none", "idle"))
    leases = sorted(row["leases"], key=lambda lease: lease["expires_at"])
    gone = "gone" if row["state"] == "lost" else "free"
    marks = sorted((colours.get(lease["class"], palette.OTHER) for lease in leases), key=int)
    marks += [gone] * max(0, row["slots"] - len(marks))
    paths = shapes.slots(marks, ("1", "2", "3", "4", "5", "free", "gone"))
    return {
        "name": row["name"],
        "state": _state(row, leases),
        "icon": icon,
        "tone": tone,
        "busy": f"{words.count(row['running'])} of {words.count(row['slots'])}",
        "owed": words.signed(row["deficit"]),
        "caps": ", ".join(row["capabilities"]) or words.MISSING,
        "rows": 20 if len(marks) > shapes.PER_ROW else 9,
        **{f"s{kind}": path for kind, path in paths.items()},
        **_lease(row, leases[0] if leases else None),
        **_progress(leases),
    }


def _state(row: Mapping[str, Any], leases: list[Mapping[str, Any]]) -> str:
    """The state in words: heartbeats and progress are two clocks, and only one of them stands still."""
    if row["state"] != "stalled":
        return str(row["state"])
    return f"alive, not progressing for {_progress(leases)['progress']}"


def _lease(row: Mapping[str, Any], first: Mapping[str, Any] | None) -> dict[str, Any]:
    heard = f"heard {words.age(row['last_seen_s'])} ago" if row["last_seen_s"] is not None else "never heard"
    if first is None:
        return {"until": None, "ttl": None, "lease": "no lease", "renewed": heard, "expires": None, "free": True}
    until = words.moment(first["expires_at"])
    return {
        "until": words.millis(until),
        "ttl": first["ttl_s"],
        "lease": "expires in",
        "expires": first["expires_at"],
        "free": False,
        "renewed": heard,
    }


def _progress(leases: list[Mapping[str, Any]]) -> dict[str, Any]:
    known = [lease for lease in leases if lease["progress_age_s"] is not None]
    if not known:
        return {"progress": words.MISSING, "nolimit": True}
    worst = max(known, key=lambda lease: lease["progress_age_s"])
    limit = worst.get("progress_timeout_s")
    return {
        "progress": words.age(worst["progress_age_s"]),
        "nolimit": not limit,
        "limit": f"of {words.limit(limit)}" if limit else "",
        "pbar": shapes.pct(80 * worst["progress_age_s"] / limit) if limit else "0%",
    }


def _strip(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    classes, totals = snapshot["classes"], snapshot["totals"]
    colours = palette.palette(row["slug"] for row in classes)
    slots = max(1, totals["slots"], totals["running"])
    found: dict[str, Any] = {"strip": [row["slug"] for row in classes], "strip.free": words.count(totals["free"])}
    start = 0.0
    for row in classes:
        width = 100 * row["running"] / slots
        found |= {
            f"k.{row['slug']}.name": row["slug"],
            f"k.{row['slug']}.c": colours[row["slug"]],
            f"k.{row['slug']}.running": words.count(row["running"]),
            f"k.{row['slug']}.x": shapes.pct(start),
            f"k.{row['slug']}.w": shapes.pct(width),
        }
        start += width
    return found
