"""Which sets of capabilities tasks need, and who offers them; the scarce ones first (services/supply.py)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.live import words


def cells(snapshot: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One row `b.<names>.…` per set, and the answer line."""
    found: dict[str, Any] = {"sets": [], "sets.some": bool(own)}
    for name, value in answer(own).items():
        found[f"answer.{name}"] = value
    for item in own:
        key = "+".join(item["capabilities"]) or "anything"
        found["sets"].append(key)
        found.update((f"b.{key}.{name}", value) for name, value in _row(item).items())
    return found


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    scarce = item["workers"] == 0
    free = (
        f"{words.count(item['free'])} of {words.count(item['slots'])}" if item["slots"] is not None else words.MISSING
    )
    counts = {name: words.count(item[name]) for name in ("workers", "wanted", "running", "queued", "limited")}
    return {
        "names": " + ".join(item["capabilities"]) or "anything",
        "row": "breach" if scarce else None,
        **state(item),
        **counts,
        "free": free,
        "oldest": words.age(item["oldest_age_s"]),
    }


def state(item: Mapping[str, Any]) -> dict[str, str]:
    """Icon, tone and word of one set: nobody, one worker only, no free slot for what waits, covered."""
    if item["workers"] is None:
        return {"icon": "none", "tone": "idle", "word": "not shown"}
    if item["workers"] == 0:
        return {"icon": "breach", "tone": "breach", "word": "no worker"}
    if item["workers"] == 1:
        return {"icon": "watch", "tone": "watch", "word": "one worker only"}
    if not item["free"] and item["queued"] > item["limited"]:
        return {"icon": "queued", "tone": "", "word": "all busy"}
    return {"icon": "ok", "tone": "ok", "word": "covered"}


def answer(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The first line of the page and its cause."""
    missing = [item for item in items if item["workers"] == 0]
    single = [item for item in items if item["workers"] == 1]
    if missing:
        waiting = sum(item["queued"] for item in missing)
        text = f"{words.plural(len(missing), 'set')} of capabilities {_have(missing)} no live worker"
        cause = f"{words.plural(waiting, 'task')} cannot start before a worker offers all that the set names."
        return {"tone": "breach", "icon": "breach", "text": text, "cause": cause}
    if single:
        text = f"{words.plural(len(single), 'set')} of capabilities {_have(single)} one worker only"
        return {"tone": "watch", "icon": "watch", "text": text, "cause": "When it goes, their tasks wait."}
    if any(item["workers"] is None for item in items):
        return {"tone": "", "icon": "none", "text": "What your tasks need", "cause": "The fleet is not shown to you."}
    cause = "Every set that tasks need is offered by two workers or more." if items else "No task waits or runs."
    return {"tone": "", "icon": "ok", "text": "No set of capabilities is scarce", "cause": cause}


def _have(items: Sequence[Any]) -> str:
    return "has" if len(items) == 1 else "have"
