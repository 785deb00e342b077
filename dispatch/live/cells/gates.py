"""Gates that a waiting task passes: the limits and conditions that are not what keeps it, with value and limit."""

from collections.abc import Iterable, Mapping
from typing import Any

from dispatch.live import words

LIVE = ("live", "idle", "late", "stalled")  #: states of workers that count as capacity


def passes(task: Mapping[str, Any], shared: Mapping[str, Any], blockers: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Name, remark, `value of limit` and how much of it is used, for each gate that no blocker names."""
    codes = {one["code"] for one in blockers}
    found = [
        _limit("class_max", f"Maximum of {task['class']}", _row(shared["classes"], task["class"]), codes),
        _limit("tenant_max", f"Maximum of {task['tenant']}", _row(shared["tenants"], task["tenant"]), codes),
        _workers(task, shared, codes),
        _plain("paused", "Pause", "class and tenant are not paused", codes),
        _plain("tool_cooldown", "Tools", f"{', '.join(task['tools'])} not cooling down", codes)
        if task["tools"]
        else None,
        _plain("scheduled", "Start time", "is past", codes) if task["run_at"] else None,
    ]
    return [one for one in found if one is not None]


def _row(rows: Iterable[Mapping[str, Any]], slug: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["slug"] == slug), None)


def _limit(code: str, name: str, row: Mapping[str, Any] | None, codes: set[str]) -> dict[str, str] | None:
    if row is None or code in codes:
        return None
    if row.get("max") is None:
        return _gate(name, "none is set", f"{words.count(row['running'])} running")
    return _gate(
        name, "", f"{words.count(row['running'])} of {words.count(row['max'])}", _part(row["running"], row["max"])
    )


def _workers(task: Mapping[str, Any], shared: Mapping[str, Any], codes: set[str]) -> dict[str, str] | None:
    if codes & {"no_capable_worker", "no_free_slot"} or not shared["workers"]:
        return None
    needs = set(task["capabilities"])
    able = [row for row in shared["workers"] if row["state"] in LIVE and needs <= set(row["capabilities"])]
    slots, busy = sum(row["slots"] for row in able), sum(row["running"] for row in able)
    remark = f"{words.plural(len(able), 'live worker')} can run it"
    return _gate("Slots of capable workers", remark, f"{words.count(busy)} of {words.count(slots)}", _part(busy, slots))


def _plain(code: str, name: str, remark: str, codes: set[str]) -> dict[str, str] | None:
    also = {"scheduled": {"backing_off"}}.get(code, set())
    return None if codes & ({code} | also) else _gate(name, remark, "")


def _gate(name: str, remark: str, numbers: str, part: str = "") -> dict[str, str]:
    return {"name": name, "remark": remark, "numbers": numbers, "part": part}


def _part(value: float, limit: float) -> str:
    return f"{min(100.0, 100 * value / limit):.1f}%" if limit else ""
