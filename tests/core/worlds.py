"""Small builders for snapshots: a test names only what matters to it."""

from itertools import count
from typing import Any

from dispatch.core.memory import Memory
from dispatch.core.policies import registry
from dispatch.core.types import MICRO, ClassPolicy, Head, Lane, Load, Plan, Policy, Slot, Snapshot

S = MICRO  # one second, one unit of cost, weight 1
NOW = 1_000_000 * S
_ids = count(1)


def heads(n: int, *, at: int = NOW - S, est: int | None = 10 * S, first: int | None = None) -> tuple[Head, ...]:
    """`n` heads, one microsecond apart."""
    start = next(_ids) * 1000 if first is None else first
    return tuple(Head(id=start + i, enqueued_at=at + i, est=est) for i in range(n))


def lane(n: int, *, id: int, work_class: int = 1, tenant: int = 1, user: int = 1, **more: Any) -> Lane:
    """A lane with `n` queued tasks, all of them visible; ids are id * 1000 + i."""
    at, est = more.pop("at", NOW - S), more.pop("est", 10 * S)
    caps = frozenset(more.pop("caps", ()))
    front = heads(n, at=at, est=est, first=id * 1000)
    return Lane(id=id, work_class=work_class, tenant=tenant, user=user, caps=caps, queued=n, heads=front, **more)


def slots(n: int, *, caps: tuple[str, ...] = (), first: int = 1, **more: Any) -> tuple[Slot, ...]:
    """`n` workers with one free slot each."""
    return tuple(Slot(id=i, worker=i, slots=1, free=1, caps=frozenset(caps), **more) for i in range(first, first + n))


def world(*, policy: Policy | None = None, now: int = NOW, **parts: Any) -> Snapshot:
    """A snapshot; the default policy has one class."""
    return Snapshot(now=now, policy=policy or Policy(classes={1: ClassPolicy()}), **parts)


def running(n: int, *, work_class: int = 1, tenant: int = 1, user: int = 1, **more: Any) -> Load:
    """What runs already in one lane."""
    return Load(work_class=work_class, tenant=tenant, user=user, running=n, **more)


def plan(snapshot: Snapshot, memory: Memory | None = None, policy: str = "fair") -> Plan:
    """One cycle of a registered policy, committed."""
    memory = memory or Memory()
    outcome = registry[policy](snapshot, memory)
    memory.commit()
    return outcome
