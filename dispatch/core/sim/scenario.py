"""Scenario documents: one policy, fleet and workload, and cases that override any of it.

    {"name", "config": {...}, "workers": [{"id", "count", "slots", "caps", "weight"}], "horizon": s, "warmup": s,
     "lease_ttl", "stall_ttl", "reconcile", "max_reclaims", "backoff", "yield_grace", "tick", "sample_at", "spread",
     "cases": [{"name", "workload": [{"kind": "burst" | "periodic" | "poisson" | "sustain", "class", "tenant", "user"
       or "users": {"prefix", "count"}, "caps", "tools", "dur", "est", "cost_rate", "count", "at", "start", "stop",
       "every", "rate", "depth", "on", "off", "poison", "yieldable", "resume", "seed", "purge"}],
       "faults": [{"worker", "at", "kind": "hang" | "crash" | "hang_renewing", "until"}], "expect": [...]}]}

`config` keys: global_budget, promotion_slots, debt_halflife, max_task_cost, user_max, reclaim {min_runtime}, classes
{weight, min, max, lend, level, aging_step, max_wait}, tenants {weight, nominal, max, borrow_limit}, users
{"tenant/user": {max, weight}}, tools {max}. Times are seconds, costs cost units; a missing key means "none".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dispatch.core.types import (
    MICRO,
    ClassPolicy,
    Policy,
    Slot,
    TenantPolicy,
    ToolPolicy,
    UserPolicy,
)

Doc = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One case, ready to run. Durations in microseconds."""

    name: str
    policy: Policy
    slots: tuple[Slot, ...]
    workload: tuple[Doc, ...]
    faults: tuple[Doc, ...] = ()
    horizon: int
    warmup: int = 0
    start: int = 0  # the clock at the beginning
    most: int | None = None  # end when so many tasks have started
    lease_ttl: int = 30 * MICRO
    stall_ttl: int = 120 * MICRO
    reconcile: int = 0
    backoff: int = 0
    yield_grace: int = 10 * MICRO
    tick: int = 0
    max_reclaims: int = 3
    sample_at: tuple[int, ...] = ()
    spread: tuple[tuple[str, str, str], ...] = ()
    expect: tuple[Doc, ...] = field(default=())


def micro(value: float | None) -> int | None:
    """Seconds or units in millionths; None stays None."""
    return None if value is None else round(value * MICRO)


def millionths(value: float) -> int:
    """A number in millionths."""
    return round(value * MICRO)


def policy_of(config: Doc) -> Policy:
    """The policy of a `config` object."""
    reclaim = config.get("reclaim")
    return Policy(
        budget=config.get("global_budget"),
        promotion_slots=config.get("promotion_slots", 0),
        user_max=config.get("user_max"),
        max_task_cost=micro(config.get("max_task_cost")),
        debt_halflife=micro(config.get("debt_halflife")),
        reclaim_min_runtime=None if reclaim is None else millionths(reclaim.get("min_runtime", 0)),
        classes={name: _class(c) for name, c in config.get("classes", {}).items()},
        tenants={name: _tenant(t) for name, t in config.get("tenants", {}).items()},
        users={_user_key(name): _user(u) for name, u in config.get("users", {}).items()},
        tools={name: ToolPolicy(max=t.get("max")) for name, t in config.get("tools", {}).items()},
    )


def _class(c: Doc) -> ClassPolicy:
    return ClassPolicy(
        weight=millionths(c.get("weight", 1)),
        min=c.get("min", 0),
        max=c.get("max"),
        lend=c.get("lend"),
        level=c.get("level", 1),
        aging_step=micro(c.get("aging_step")),
        max_wait=micro(c.get("max_wait")),
    )


def _tenant(t: Doc) -> TenantPolicy:
    return TenantPolicy(
        weight=millionths(t.get("weight", 1)),
        nominal=t.get("nominal", 0),
        max=t.get("max"),
        borrow=t.get("borrow_limit"),
    )


def _user_key(name: str) -> tuple[str, str]:
    tenant, _, user = name.partition("/")
    return (tenant, user)


def _user(u: Doc) -> UserPolicy:
    return UserPolicy(weight=millionths(u.get("weight", 1)), max=u.get("max"))


def load(document: Doc) -> list[Scenario]:
    """The runnable cases of a document: a case inherits what it does not set, `config` one level deep."""
    shared = {key: value for key, value in document.items() if key != "cases"}
    cases = [
        _case({**shared, **case}, {**shared.get("config", {}), **case.get("config", {})}) for case in _cases(document)
    ]
    return [case for case in cases if case.workload]


def _cases(document: Doc) -> list[Doc]:
    return list(document["cases"]) if "cases" in document else [document]


def _case(doc: Doc, config: Doc) -> Scenario:
    return Scenario(
        name=doc["name"],
        policy=policy_of(config),
        slots=tuple(slot for spec in doc["workers"] for slot in _slots(spec)),
        workload=tuple(item for spec in doc.get("workload", ()) for item in _users(spec)),
        faults=tuple(doc.get("faults", ())),
        horizon=millionths(doc["horizon"]),
        warmup=millionths(doc.get("warmup", 0)),
        lease_ttl=millionths(doc.get("lease_ttl", 30)),
        stall_ttl=millionths(doc.get("stall_ttl", 120)),
        reconcile=millionths(doc.get("reconcile", 0)),
        backoff=millionths(doc.get("backoff", 0)),
        yield_grace=millionths(doc.get("yield_grace", 10)),
        tick=millionths(doc.get("tick") or 0),
        max_reclaims=doc.get("max_reclaims", 3),
        sample_at=tuple(millionths(at) for at in doc.get("sample_at", ())),
        spread=tuple((kind, one, two) for kind, one, two in doc.get("spread", ())),
        expect=tuple(doc.get("expect", ())),
    )


def _slots(spec: Doc) -> list[Slot]:
    names = [f"{spec['id']}{n:03d}" for n in range(spec["count"])] if "count" in spec else [spec["id"]]
    size = spec.get("slots", 1)
    return [
        Slot(
            id=name,
            worker=name,
            slots=size,
            free=size,
            caps=frozenset(spec.get("caps", ())),
            weight=millionths(spec.get("weight", 1)),
        )
        for name in names
    ]


def _users(spec: Doc) -> list[Doc]:
    users = spec.get("users")
    if not users:
        return [spec]
    return [
        {**spec, "user": f"{users['prefix']}{n}", "seed": f"{spec.get('seed', '')}/{n}"} for n in range(users["count"])
    ]
