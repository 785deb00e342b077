"""Rows and details of tasks: state, icon, tone, times in words."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dispatch.live import words
from dispatch.live.cells import palette
from dispatch.live.cells.dead import error_line

#: state → icon, tone, word
STATES = {
    "scheduled": ("queued", "idle", "scheduled"),
    "queued": ("queued", "", "queued"),
    "leased": ("running", "ok", "running"),
    "held": ("held", "watch", "held"),
    "succeeded": ("ok", "ok", "done"),
    "dead": ("breach", "breach", "dead"),
    "cancelled": ("cancelled", "idle", "cancelled"),
}
#: ends of attempts → icon, tone
OUTCOMES = {
    "succeeded": ("ok", "ok"),
    "failed": ("breach", "watch"),
    "lost": ("lost", "watch"),
    "stalled": ("stalled", "watch"),
    "timed_out": ("queued", "watch"),
    "expired": ("queued", "watch"),
}
#: first blocker → what the task waits for
WAITS_FOR = {
    "no_capable_worker": "for a worker that can run it",
    "no_free_slot": "for a free slot on a worker that can run it",
    "paused": "for a resume",
    "tool_cooldown": "for a tool that cools down",
    "budget_spent": "for a new budget",
    "behind_in_lane": "behind older tasks of its queue",
    "lower_share": "while others are owed more",
    "reserved_for_others": "while slots are kept for others",
} | dict.fromkeys(("class_max", "tenant_max", "user_max", "tool_max", "pool_budget"), "for room under a limit")
FINAL = {"succeeded", "dead", "cancelled"}
WAITING = {"scheduled", "queued", "held"}


def rows(items: Iterable[Mapping[str, Any]], colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the list shows of each task."""
    return [row(item, colours) for item in items]


def row(item: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """One task of the list."""
    icon, tone, word = STATES[item["state"]]
    return {
        "id": item["id"],
        "icon": icon,
        "tone": tone,
        "word": "cancelling" if item["cancel_requested"] and item["state"] == "leased" else word,
        "type": item["type"] or "task",
        "queue": f"{item['class']} · {item['tenant']}",
        "c": colours.get(item["class"], palette.OTHER),
        "user": "" if item["user"] == "-" else item["user"],
        "age": words.age(item["queue_age_s"]),
        "attempts": f"{item['attempts']} of {item['attempts_allowed']}",
        "worker": item["worker"] or "",
        "note": why_dead(item),
        "submitted": item["created_at"],
        "finished": item["finished_at"],
    }


def detail(task: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """What the page of one task shows, payload and result aside."""
    icon, tone, word = STATES[task["state"]]
    title, cause = answer(task)
    return {
        "task": task,
        "c": colours.get(task["class"], palette.OTHER),
        "state": {"icon": icon, "tone": tone, "word": word},
        "answer": {"tone": tone if tone in ("watch", "breach") else "", "icon": icon, "title": title, "cause": cause},
        "facts": facts(task),
        "attempts_used": f"{task['attempts']} of {task['attempts_allowed']} used",
        "history": [event(entry) for entry in reversed(task["history"])],
        "may_cancel": task["state"] not in FINAL and not task["cancel_requested"],
        "may_requeue": task["state"] == "dead",
        "may_revoke": task["state"] == "leased" and task["lease"] is not None,
        "lease_until": words.millis(task["lease"]["expires_at"]) if task["lease"] else None,
        "error": error_text(task["error"]),
    }


def answer(task: Mapping[str, Any]) -> tuple[str, str]:
    """The sentence of the page and its cause."""
    lease, end = task["lease"], task["finished_at"]
    match task["state"]:
        case "queued":
            return f"Waiting {words.age(task['queue_age_s'])} for its turn", needs(task)
        case "scheduled":
            return f"Starts not before {words.stamp(task['run_at'])}", needs(task)
        case "leased" if lease:
            note = (lease["progress"] or {}).get("note") or "No note yet."
            asked = "Asked to cancel; the agent hears of it at its next heartbeat. " if task["cancel_requested"] else ""
            return f"Running on {lease['worker']} since {words.clock(lease['delivered_at'])}", f"{asked}{note}"
        case "held":
            return "Held", (task["reason"] or "set aside").replace("_", " ")
        case "dead":
            return f"Dead since {words.stamp(end)}", why_dead(task)
        case "cancelled":
            return f"Cancelled {words.stamp(end)}", task["reason"] or ""
    return f"Done {words.stamp(end)}", took(task["created_at"], end)


def why(found: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The blockers of a waiting task with their numbers, and the answer with the first of them as its cause."""
    blockers = [one | {"numbers": _numbers(one), "part": _part(one)} for one in found["blockers"]]
    estimate, position = found["estimate_s"], found["position"]
    about = "The next cycle starts it." if found["startable"] else ""
    if estimate and not found["startable"]:
        about = f"At the present pace it starts in about {words.age(estimate)}."
    cause = " ".join(part for part in (blockers[0]["text"] if blockers else "", about) if part)
    return {
        "why": {
            "blockers": blockers,
            "about": about,
            "place": f"{words.count(position['lane'])} of {words.count(position['lane'] + position['ahead_of'])}"
            if position
            else "",
            "owed": None if found["deficit"] is None else words.signed(found["deficit"]),
            "holders": [_holder(one) for one in found["holders"]],
        },
        "answer": {**answer, "cause": cause or answer["cause"], **_alarm(blockers)},
        "waits_for": waits_for(blockers),
    }


def waits_for(blockers: Sequence[Mapping[str, Any]]) -> str:
    """What the wait is for, in the words of the page's first line."""
    code = blockers[0]["code"] if blockers else ""
    return WAITS_FOR.get(code, "for its turn")


def _alarm(blockers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What does not pass by waiting is tinted."""
    hopeless = any(one["code"] == "no_capable_worker" for one in blockers)
    return {"tone": "watch", "icon": "watch"} if hopeless else {}


def _part(blocker: Mapping[str, Any]) -> str:
    """How much of a limit that is a count is used."""
    value, limit = blocker["value"], blocker["limit"]
    counts = isinstance(value, int) and isinstance(limit, int) and limit > 0
    return f"{min(100.0, 100 * value / limit):.1f}%" if counts else ""


def _numbers(blocker: Mapping[str, Any]) -> str:
    """`8 of 8` where the limit is a count."""
    value, limit = blocker["value"], blocker["limit"]
    counts = isinstance(value, int) and isinstance(limit, int) and limit > 0
    return f"{words.count(value)} of {words.count(limit)}" if counts else ""


def _holder(one: Mapping[str, Any]) -> tuple[str, str, int]:
    kind = next(name for name in one if name != "running")
    return kind, one[kind], one["running"]


def needs(task: Mapping[str, Any]) -> str:
    """What a worker must offer for it."""
    names = " and ".join(task["capabilities"])
    return f"It needs a worker with {names}." if names else "Any worker will do."


def why_dead(task: Mapping[str, Any]) -> str:
    """Reason and error, of a dead letter above all."""
    reason = (task["reason"] or "").replace("_", " ")
    return ": ".join(part for part in (reason, error_line(task["error"])) if part)


def took(start: datetime, end: datetime | None) -> str:
    """How long it took from submit to end."""
    return "" if end is None else f"{words.age((end - start).total_seconds())} after it was submitted."


def facts(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of the plain properties; those without a value are left out."""
    cost = None if task["cost"] is None else words.decimal(task["cost"])
    pairs = [
        ("User", "" if task["user"] == "-" else task["user"]),
        ("Pool", task["pool"]),
        ("Priority", str(task["priority"])),
        ("Needs", ", ".join(task["capabilities"])),
        ("Tools", ", ".join(task["tools"])),
        ("Cost estimate", cost or ""),
        ("Key", task["key"] or ""),
        ("Submitted", words.stamp(task["created_at"])),
        ("Not before", words.stamp(task["run_at"]) if task["run_at"] else ""),
        ("Deadline", words.stamp(task["deadline"]) if task["deadline"] else ""),
        ("Finished", words.stamp(task["finished_at"]) if task["finished_at"] else ""),
        ("Delivered leases", words.count(task["starts"])),
        ("Losses", words.count(task["losses"]) if task["losses"] else ""),
        ("Hand-backs", words.count(task["handbacks"]) if task["handbacks"] else ""),
    ]
    return [(name, value) for name, value in pairs if value]


def event(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the history."""
    icon, tone = OUTCOMES.get(entry["event"], ("right", "idle"))
    started = entry.get("started_at")
    ran = words.age((entry["at"] - started).total_seconds()) if started else ""
    about = [entry.get("actor") or "", (entry.get("reason") or "").replace("_", " "), error_line(entry.get("error"))]
    return {
        "at": entry["at"],
        "icon": icon,
        "tone": tone,
        "word": entry["event"].replace("_", " "),
        "attempt": entry.get("attempt") or "",
        "worker": entry.get("worker") or "",
        "ran": ran,
        "counted": "" if entry.get("counted") is None else ("counted" if entry["counted"] else "not counted"),
        "about": " · ".join(part for part in about if part),
    }


def error_text(error: Any) -> str:
    """The whole error with its stack."""
    if not isinstance(error, Mapping):
        return str(error or "")
    return "\n".join(str(error[name]) for name in ("message", "stack") if error.get(name))
