"""What a cost budget may look like, and when it needs a look. Pure.

A budget holds an amount for each window (an hour, day, week or month of a time zone, whole multiples of some seconds,
or one window for ever). When it is spent: `hold` lets tasks wait for the next window or for more; `degrade` moves them
to another class, which the budget does not count; `stop` also asks running tasks to hand back and refuses new ones.
"""

from collections.abc import Mapping
from typing import Any

from dispatch.core.validate import MAX_COST, MAX_SECONDS, Field, each

SPANS = ("hour", "day", "week", "month")
ON_BREACH = ("hold", "degrade", "stop")
FOLLOWING = "default"  # the name of the budget that is the tenant's own cost_budget

FIELDS: Mapping[str, Field] = {
    "class": Field("slug", null=True),
    "user": Field("text", 1, 63, null=True),
    "unit": Field("text", 1, 32, null=True),
    "limit": Field("number", 0, MAX_COST),
    "window": Field("choice", null=True, choices=SPANS),
    "window_s": Field("number", 1, MAX_SECONDS, null=True),
    "timezone": Field("text", 1, 64),
    "on_breach": Field("choice", choices=ON_BREACH),
    "degrade_to": Field("slug", null=True),
    "alert_at": Field("above", 0, 1),
}
FIXED = frozenset({"class", "user"})  # another scope is another budget


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The problems of some fields, as (field, sentence)."""
    return each(FIELDS, values, "is not a field of a budget")


def contradictions(whole: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The problems between the fields of one whole budget."""
    found = []
    if whole["window"] is not None and whole["window_s"] is not None:
        found.append(("window_s", "must be null where window is given"))
    if (whole["on_breach"] == "degrade") != (whole["degrade_to"] is not None):
        found.append(("degrade_to", "goes with on_breach degrade, and is needed there"))
    if whole["degrade_to"] is not None and whole["degrade_to"] == whole["class"]:
        found.append(("degrade_to", "must be another class than the budget's own"))
    return found


def is_low(used: int, amount: int | None, alert_at: float) -> bool:
    """Whether so much of the amount is settled or reserved that somebody should know."""
    return amount is not None and used >= amount * alert_at and used > 0
