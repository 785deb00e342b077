"""The live cells of one task's page: the answer, the lease that counts down, progress and how old it is."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import words

STALL_S = 600.0  #: without a deadline of its own, a task that reports nothing new for so long is told
NEAR = 0.5  #: of the progress deadline


def cells(snapshot: Mapping[str, Any], pulse: Mapping[str, Any]) -> dict[str, Any]:
    """`task.version` moves when the page has to be drawn anew, the others tick by themselves."""
    return {"task.version": version(pulse), "task.waited": waited(pulse), **lease(pulse)}


def version(pulse: Mapping[str, Any]) -> str:
    """Changes with every event of the task's life."""
    names = ("state", "starts", "attempts", "losses", "handbacks", "token", "cancel_requested", "priority", "run_at")
    return ".".join(str(pulse[name]) for name in names)


def waited(pulse: Mapping[str, Any]) -> str:
    """The queue age of a queued task."""
    return words.age(pulse["queue_age_s"]) if pulse["queue_age_s"] is not None else ""


def lease(pulse: Mapping[str, Any]) -> dict[str, Any]:
    """The countdown and the progress of the lease; nothing without one."""
    if pulse["expires_at"] is None:
        return {"task.leased": False}
    tone, stall = stalled(pulse)
    fraction = pulse["progress_fraction"]
    steps = "" if pulse["progress_step"] is None else f"step {words.count(pulse['progress_step'])}"
    part = "" if fraction is None else f"{100 * fraction:.0f} %"
    return {
        "task.leased": True,
        "task.until": words.millis(pulse["expires_at"]),
        "task.ttl": pulse["ttl_s"],
        "task.expires": f"lease expires {words.clock(pulse['expires_at'])} UTC",
        "task.renewed": f"renewed {words.age(pulse['renewed_age_s'])} ago",
        "task.note": pulse["progress_note"] or "",
        "task.part": " · ".join(text for text in (part, steps) if text) or "no progress reported",
        "task.bar": f"{100 * (fraction or 0):.1f}%",
        "task.stall": stall,
        "task.stall.tone": tone,
        "task.stall.none": not stall,
    }


def stalled(pulse: Mapping[str, Any]) -> tuple[str, str]:
    """Tone and words of an agent whose heart beats while its work stands still."""
    age, limit = pulse["progress_age_s"], pulse["progress_timeout_s"]
    if age is None or (limit is None and age < STALL_S) or (limit is not None and age < NEAR * limit):
        return "", ""
    left = "" if limit is None else f", reclaim in {words.age(max(0.0, limit - age))}"
    tone = "breach" if limit is not None and age >= limit else "watch"
    return tone, f"alive, not progressing for {words.age(age)}{left}"
