"""What values the product takes: slugs, numbers, texts, and the fields of every policy object with their ranges.

Strict: a boolean is no number, "3" is no number, 3.0 is no whole number, NaN and infinities are nothing. A check
returns the sentence for the caller, or None when the value is good. Names, defaults and ranges: the API contract.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dispatch.core import policies

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NO_USER = "-"  # the user of a tenant's tasks that name none
MAX_COUNT = 1_000_000  # slots, attempts, submits: beyond any fleet, inside every column
MAX_SECONDS = 3_153_600_000.0  # a hundred years: inside every interval
MAX_COST = 1e12  # in the pool's unit: a million of them still fit a bigint of micro-units
MAX_WEIGHT = 1000.0
MIN_WEIGHT = 0.001
UNKNOWN = "is not a field of this object"

Check = Callable[[Any], str | None]


def is_slug(value: Any) -> bool:
    """Whether it is a name: `[a-z0-9][a-z0-9._-]{0,62}`."""
    return isinstance(value, str) and SLUG.fullmatch(value) is not None


def slug(value: Any) -> str | None:
    """The problem of a name, or None."""
    return (
        None if is_slug(value) else "must be a name: a-z, 0-9, '.', '_' or '-', at most 63, the first a letter or digit"
    )


def storable(text: str) -> bool:
    """Whether PostgreSQL can store the text: no NUL, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def number(value: Any, low: float, high: float, *, above: bool = False) -> str | None:
    """The problem of a finite number in low..high (above: low itself is out), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > 10**300:
        return "must be a finite number"
    if value > high or value < low or (above and value == low):
        return f"must be {'above' if above else 'at least'} {low:g} and at most {high:g}"
    return None


def whole(value: Any, low: int, high: int = MAX_COUNT) -> str | None:
    """The problem of a whole number in low..high, or None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return "must be a whole number"
    return None if low <= value <= high else f"must be a whole number from {low} to {high}"


def weight(value: Any) -> str | None:
    """The problem of a weight (0, or 0.001..1000), or None."""
    if (problem := number(value, 0, MAX_WEIGHT)) is not None:
        return problem
    return None if value == 0 or value >= MIN_WEIGHT else f"must be 0 or from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}"


def text(value: Any, low: int, high: int) -> str | None:
    """The problem of a text of low..high characters that can be stored, or None."""
    if not isinstance(value, str):
        return "must be a text"
    if not low <= len(value.strip()) or len(value) > high:
        return f"must have {low} to {high} characters"
    return None if storable(value) else "must not hold NUL or lone surrogates"


def moment(value: Any) -> str | None:
    """The problem of a time with its zone, or None."""
    if not isinstance(value, datetime):
        return "must be a time such as 2030-01-31T12:00:00Z"
    return None if value.tzinfo is not None and value.utcoffset() is not None else "needs a time zone"


def boolean(value: Any) -> str | None:
    """The problem of a truth value, or None."""
    return None if isinstance(value, bool) else "must be true or false"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a policy object: its kind with the range, whether null means "none", whether it can be edited."""

    kind: str  # whole, number, above (exclusive low), weight, bool, slug, time, text, choice
    low: float = 0
    high: float = MAX_COUNT
    null: bool = False
    fixed: bool = False
    choices: tuple[str, ...] = ()

    def __call__(self, value: Any) -> str | None:
        """The sentence for a bad value, or None."""
        if value is None:
            return None if self.null else "must not be null"
        match self.kind:
            case "whole":
                return whole(value, int(self.low), int(self.high))
            case "number" | "above":
                return number(value, self.low, self.high, above=self.kind == "above")
            case "text":
                return text(value, int(self.low), int(self.high))
            case "choice":
                return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        return {"weight": weight, "bool": boolean, "slug": slug, "time": moment}[self.kind](value)


_COUNT = Field("whole", null=True)
_SECONDS = Field("above", 0, MAX_SECONDS, null=True)
_PAUSED = Field("bool")
_WEIGHT = Field("weight")

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "pool": {
        "budget": _COUNT,
        "lease_ttl_s": Field("number", 1, 86400),
        "heartbeat_every_s": Field("number", 0.1, 43200),
        "offer_ttl_s": Field("number", 0.1, 86400),
        "max_reclaims": _COUNT,
        "max_handbacks": Field("whole", 1),
        "promotion_slots": _COUNT,
        "user_max": Field("whole", 1, null=True),
        "max_task_cost": Field("above", 0, MAX_COST, null=True),
        "cost_unit": Field("text", 1, 32),
        "policy": Field("choice", choices=tuple(policies.registry)),
        "debt_halflife_s": _SECONDS,
        "reclaim_min_runtime_s": Field("number", 0, MAX_SECONDS, null=True),
        "reclaim_dead_zone": Field("whole"),
        "reclaim_per_round": Field("whole", 1, null=True),
        "yield_grace_s": Field("number", 0, MAX_SECONDS),
        "paused": _PAUSED,
    },
    "class": {
        "pool": Field("slug", fixed=True),
        "weight": _WEIGHT,
        "min": Field("whole"),
        "max": _COUNT,
        "lend": _COUNT,
        "level": Field("whole", 1, 1000),
        "aging_step_s": _SECONDS,
        "max_wait_s": _SECONDS,
        "slo_queue_s": _SECONDS,
        "slo_done_s": _SECONDS,
        "max_attempts": Field("whole", 1, 100),
        "backoff_s": Field("number", 0, MAX_SECONDS),
        "backoff_max_s": Field("number", 0, MAX_SECONDS),
        "default_cost": Field("above", 0, MAX_COST, null=True),
        "preempt": Field("bool"),
        "retain_s": Field("number", 0, MAX_SECONDS),
        "paused": _PAUSED,
    },
    "tenant": {
        "weight": _WEIGHT,
        "nominal": Field("whole"),
        "max": _COUNT,
        "borrow": _COUNT,
        "user_max": Field("whole", 0, null=True),
        "max_queued": Field("whole", 0, 2**31 - 1, null=True),
        "submit_per_minute": Field("whole", 0, 2**31 - 1, null=True),
        "cost_budget": Field("number", 0, MAX_COST, null=True),
        "budget_window_s": _SECONDS,
        "paused": _PAUSED,
    },
    "tool": {"max": _COUNT, "cooldown_until": Field("time", null=True), "paused": _PAUSED},
    "capability": {},
}


def each(checks: Mapping[str, Check], values: Mapping[str, Any], unknown: str = UNKNOWN) -> list[tuple[str, str]]:
    """The problems of some fields, as (field, sentence); `unknown` is that of a name without a check."""
    told = ((str(name), checks[name](value) if name in checks else unknown) for name, value in values.items())
    return [(name, problem) for name, problem in told if problem]


def fields(kind: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The problems of some fields of one kind of policy object."""
    return each(FIELDS[kind], values)


def cross_fields(kind: str, whole_object: Mapping[str, Any], changed: frozenset[str]) -> list[tuple[str, str]]:
    """The problems between fields of one object, each named at the field that was changed."""
    found: list[tuple[str, str]] = []

    def blame(first: str, second: str, problem_first: str, problem_second: str) -> None:
        found.append((first, problem_first) if first in changed or second not in changed else (second, problem_second))

    value = whole_object
    if kind == "class":
        if value["max"] is not None and value["min"] > value["max"]:
            blame("min", "max", f"must not be above max ({value['max']})", f"must not be below min ({value['min']})")
        if value["lend"] is not None and value["lend"] > value["min"]:
            blame("lend", "min", f"must not be above min ({value['min']})", f"must not be below lend ({value['lend']})")
    if kind == "tenant" and value["max"] is not None and value["nominal"] > value["max"]:
        blame(
            "nominal",
            "max",
            f"must not be above max ({value['max']})",
            f"must not be below nominal ({value['nominal']})",
        )
    if kind == "pool" and value["lease_ttl_s"] < 2 * value["heartbeat_every_s"]:
        blame(
            "lease_ttl_s",
            "heartbeat_every_s",
            f"must be at least twice heartbeat_every_s ({value['heartbeat_every_s']:g})",
            f"must be at most half of lease_ttl_s ({value['lease_ttl_s']:g})",
        )
    return found
