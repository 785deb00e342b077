"""The rules between the objects of a policy: what contradicts (refused), what may not do what its maker wants (warned).

Everything is judged for one edited object and the fields that the edit named, so that an edit of a weight is never
refused for a contradiction that was there before. Promotion slots count only where a class can be promoted at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, Any]
Finding = tuple[str, str]  # field, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an edited object stands in. `pools` and `tenants` are all of them, `classes` those of the pool concerned."""

    pool: Values | None = None
    pools: Sequence[Values] = ()
    classes: Sequence[Values] = ()
    tenants: Sequence[Values] = ()
    live_slots: int = 0
    running: int = 0  # tasks of the edited object that run now (tenant: in its busiest pool)
    user_maxima: Mapping[str, int] = field(default_factory=dict)  # users of the edited tenant


def promotion_slots(pool: Values, classes: Sequence[Values], slots: int) -> int:
    """Slots that promotions may take: the setting, else 5 % of the slots and at least 1; 0 where no class promotes."""
    if pool["promotion_slots"] is not None:
        return int(pool["promotion_slots"])
    promotes = any(one["max_wait_s"] is not None for one in classes)
    return min(slots, max(1, slots // 20)) if promotes else 0


def errors(kind: str, changed: frozenset[str], setting: Setting) -> list[Finding]:
    """Contradictions, each named at a field that the edit changed."""
    found: list[Finding] = []
    if kind in {"class", "pool"} and setting.pool is not None:
        found += _floors(changed, setting.pool, setting.classes)
        found += _promotion(kind, changed, setting.pool, setting.classes)
    if changed & {"nominal", "budget"}:
        found += _nominals(changed, setting)
    return found


def _floors(changed: frozenset[str], pool: Values, classes: Sequence[Values]) -> list[Finding]:
    relevant = [name for name in ("min", "budget", "promotion_slots", "max_wait_s") if name in changed]
    budget = pool["budget"]
    if not relevant or budget is None:
        return []
    floors, promotion = sum(one["min"] for one in classes), promotion_slots(pool, classes, budget)
    if floors + promotion <= budget:
        return []
    parts = f"the minimums of the pool's classes ({floors}) and its promotion slots ({promotion})"
    return [(relevant[0], f"{parts} exceed its budget ({budget})")]


def _promotion(kind: str, changed: frozenset[str], pool: Values, classes: Sequence[Values]) -> list[Finding]:
    if pool["promotion_slots"] != 0 or all(one["max_wait_s"] is None for one in classes):
        return []
    if kind == "class" and "max_wait_s" in changed:
        return [("max_wait_s", f"needs promotion slots, and the pool {pool['slug']} has 0 of them")]
    if kind == "pool" and "promotion_slots" in changed:
        return [("promotion_slots", "must be at least 1 while a class has max_wait_s")]
    return []


def _nominals(changed: frozenset[str], setting: Setting) -> list[Finding]:
    """Quotas hold in each pool; they contradict only where no pool is large enough for all of them."""
    budgets = [pool["budget"] for pool in setting.pools]
    total = sum(tenant["nominal"] for tenant in setting.tenants)
    if not budgets or None in budgets or total <= max(budgets) or total == 0:
        return []
    name = "nominal" if "nominal" in changed else "budget"
    return [(name, f"the nominal quotas of all tenants ({total}) exceed the budget of every pool ({max(budgets)})")]


def warnings(kind: str, value: Values, setting: Setting) -> list[Finding]:
    """Doubts about one object as it stands; they never refuse anything."""
    if kind == "capability":
        return []
    more = {"class": _class, "tenant": _tenant, "pool": _pool}.get(kind)
    return _maximum(value, setting) + (more(value, setting) if more else [])


def _maximum(value: Values, setting: Setting) -> list[Finding]:
    name = "budget" if "budget" in value else "max"
    most = value[name]
    if most == 0:
        return [(name, "0 means that nothing new ever starts here")]
    if most is not None and setting.running > most:
        return [(name, f"{setting.running} run now: nothing is stopped, nothing new starts until fewer do")]
    return []


def _class(value: Values, setting: Setting) -> list[Finding]:
    found: list[Finding] = []
    safe = value["min"] > 0 or value["max_wait_s"] is not None
    if value["weight"] == 0 and not safe:
        found.append(("weight", "0 without min or max_wait_s: served only when nobody else waits, it may starve"))
    if value["level"] > 1 and value["aging_step_s"] is None and not safe:
        found.append(("level", f"level {value['level']} without aging_step_s, max_wait_s or min: it may starve"))
    if None not in (value["slo_queue_s"], value["max_wait_s"]) and value["max_wait_s"] > value["slo_queue_s"]:
        found.append(("max_wait_s", f"later than the SLO of {value['slo_queue_s']:g} s"))
    maxima = [tenant["max"] for tenant in setting.tenants]
    if maxima and None not in maxima and value["min"] > sum(maxima):
        found.append(("min", f"more than all tenants together may run ({sum(maxima)})"))
    return found + (_scaled("min", setting) if value["min"] else [])


def _pool(value: Values, setting: Setting) -> list[Finding]:
    return _scaled("budget", setting)


def _scaled(name: str, setting: Setting) -> list[Finding]:
    """Floors beyond what lives are scaled down in proportion."""
    assert setting.pool is not None
    floors = sum(one["min"] for one in setting.classes)
    capacity = min(setting.live_slots, setting.pool["budget"] or setting.live_slots)
    promotion = promotion_slots(setting.pool, setting.classes, capacity)
    if not floors or not setting.live_slots or floors + promotion <= capacity:
        return []
    text = f"the minimums ({floors}) and promotion slots ({promotion}) exceed the live slots ({capacity})"
    return [(name, f"{text}: they are scaled down until more workers come")]


def _tenant(value: Values, setting: Setting) -> list[Finding]:
    found: list[Finding] = []
    ceilings = [one["max"] for one in setting.classes]
    if value["nominal"] and ceilings and None not in ceilings and value["nominal"] > sum(ceilings):
        found.append(("nominal", f"cannot be reached: its classes may run {sum(ceilings)} tasks"))
    if value["cost_budget"] is not None and value["budget_window_s"] is None:
        found.append(("cost_budget", "without budget_window_s it counts from the beginning and stays spent"))
    above = [name for name, most in setting.user_maxima.items() if value["max"] is not None and most > value["max"]]
    if above:
        found.append(("max", f"below the maximum of the users {', '.join(above[:5])}"))
    return found
