"""One plain sentence for each blocker of explain.py. The caller knows the names and turns times into texts.

`value` and `limit` may be None where the asker may not see them; the sentence then does without.
"""

from collections.abc import Iterable

from dispatch.core.explain import NOBODY_ASKS, Blocker
from dispatch.core.types import MICRO

_SENTENCES = {
    "held": "It is set aside{why}.",
    "lower_share": "Others are owed the free slots first; tenant {name} has had its share for now.",
}
_NOT_YET = {"tool_cooldown": "Tool {name} cools down", "scheduled": "Not due yet", "backing_off": "Backing off"}


def duration(seconds: float) -> str:
    """`45 s`, `13 m 36 s`, `2 h 05 m`, `3 d 04 h`: two units at most, never below 0."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def sentence(blocker: Blocker, name: str, *, waited_s: float = 0, caps: Iterable[str] = (), why: str = "") -> str:
    """What a person reads. `name`: the subject's slug (or a worker's name, empty when there is none); `waited_s`: how
    long the task has been startable; `caps`: what it needs; `why`: the reason that was given for a hold or pause."""
    value, limit = blocker.value, blocker.limit
    because = f": {why}" if why else ""
    match blocker.code:
        case "paused":
            return f"The {blocker.kind}{f' {name}' if name else ''} is paused{because}."
        case "no_free_slot":
            return _no_slot(value == NOBODY_ASKS, waited_s, caps)
        case "no_capable_worker":
            nearest = f"; the nearest, {name}, lacks {value}" if name and value else ""
            return f"No live worker offers {limit or 'a slot for this tenant'}{nearest}."
        case "budget_spent":
            used = f"{in_units(value):g} of {in_units(limit):g} are spent or reserved"
            return f"The budget {name} is used up{f' {why}' if why else ''}: {used}, too much for this task."
        case "tenant_max" if blocker.kind == "part":
            return f"The tenant runs {_of(value, limit)} in the class {name}."
        case "class_max" | "tenant_max" | "user_max" | "tool_max":
            return f"{blocker.kind.capitalize()} {name} runs {_of(value, limit)}."
        case "pool_budget":
            return f"The pool runs {_of(value, limit, 'its budget of ')} slots."
        case "reserved_for_others":
            slots = "free slots" if value is None else f"{value} free slots"
            return f"The {slots} are kept for classes that do not lend their minimum."
        case "behind_in_lane":
            return (
                "1 task of its queue starts before it."
                if value == 1
                else f"{value} tasks of its queue start before it."
            )
        case "tool_cooldown" | "scheduled" | "backing_off":
            left = (
                f" for {duration((limit - value) / MICRO)}" if isinstance(limit, int) and isinstance(value, int) else ""
            )
            return f"{_NOT_YET[blocker.code].format(name=name)}{left}."
    return _SENTENCES[blocker.code].format(name=name, why=because)


def in_units(micro: float | str | None) -> float:
    """A cost in micro-units as a number of units."""
    return micro / MICRO if isinstance(micro, int | float) else 0.0


def _no_slot(nobody_asks: bool, waited_s: float, caps: Iterable[str]) -> str:
    names = sorted(caps)
    where = (
        f" on a worker with {' and '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}" if names else ""
    )
    said = f"Waiting {duration(waited_s)} for a free slot{where}"
    return f"{said}; no agent is asking for work." if nobody_asks else f"{said}."


def _of(value: float | str | None, limit: float | str | None, what: str = "") -> str:
    return f"all of {what or 'its maximum of '}{limit}" if value is None else f"{value} of {what or 'at most '}{limit}"
