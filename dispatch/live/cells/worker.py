"""One worker: its state, its leases with what is left of them, its sessions (services/worker_control.py)."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import words
from dispatch.live.cells import palette
from dispatch.live.cells.workers import STATES


def cells(snapshot: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Rows `e.<task>.…` (leases) and `i.<session>.…` (sessions), facts `o.…`."""
    colours = palette.palette(row["slug"] for row in snapshot["classes"])
    live = next((row for row in snapshot["workers"] if row["id"] == own["id"]), None)
    state = own["state"] if live is None or own["state"] == "gone" else live["state"]
    icon, tone = STATES.get(state, ("none", "idle"))
    found: dict[str, Any] = {
        "o.icon": icon,
        "o.tone": tone,
        "o.state": state,
        "o.busy": f"{words.count(own['running'])} of {words.count(own['slots'])} slots busy",
        "o.owed": words.signed(own["deficit"]),
        "o.heard": own["last_seen_at"].isoformat() if own["last_seen_at"] else None,
        "o.caps": ", ".join(own["capabilities"]) or words.MISSING,
        "leases": [str(row["task_id"]) for row in own["leases"]],
        "leases.some": bool(own["leases"]),
        "sessions": [str(row["id"]) for row in own["open_sessions"]],
        "sessions.some": bool(own["open_sessions"]),
    }
    progress = {row["task_id"]: row for row in (live["leases"] if live else [])}
    for row in own["leases"]:
        more = _lease(row, progress.get(row["task_id"], {})) | {"c": colours.get(row["class"], palette.OTHER)}
        found.update((f"e.{row['task_id']}.{name}", value) for name, value in more.items())
    for row in own["open_sessions"]:
        found.update((f"i.{row['id']}.{name}", value) for name, value in _session(row).items())
    return found


def _lease(row: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    since = row["renewed_at"] or row["delivered_at"]
    told = live.get("progress") or {}
    part = "" if told.get("fraction") is None else f"{told['fraction'] * 100:.0f} %"
    step = "" if told.get("step") is None else f"step {words.count(told['step'])}"
    return {
        "id": words.count(row["task_id"]),
        "queue": f"{row['class']} · {row['tenant']}",
        "attempt": words.count(row["attempt"]),
        "until": words.millis(row["expires_at"]),
        "ttl": (row["expires_at"] - since).total_seconds() if since else None,
        "expires": row["expires_at"].isoformat(),
        "renewed": f"renewed {words.clock(row['renewed_at'])} UTC" if row["renewed_at"] else "not renewed yet",
        "progress": words.age(live.get("progress_age_s")),
        "note": " · ".join(text for text in (part or step, str(told.get("note") or "")) if text),
    }


def _session(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "version": row["version"] or words.MISSING,
        "tenant": row["tenant"] or "all",
        "slots": words.count(row["slots"]),
        "running": words.count(row["running"]),
        "opened": row["opened_at"].isoformat(),
        "seen": row["last_seen_at"].isoformat(),
    }
