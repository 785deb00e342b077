"""Why a task does not run: all its blockers, from the predicates and the plan that the dispatcher itself uses.

`explain` judges the limits one by one, lifts in a copy of the snapshot those that block, looks again for what they hid,
and at last plans that copy: a task that still does not start is behind in its lane or has a lower share.
So removing every listed blocker makes the task start (a property in tests/core holds it to that).
Costs one or two cycles; meant for a question now and then. The codes are contract.md's (Explain).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from dispatch.core.cost import charge_for
from dispatch.core.cycle import known_costs
from dispatch.core.matching import fits
from dispatch.core.memory import Memory
from dispatch.core.quota import NO_CLASS, NO_TENANT, NO_TOOL, NO_USER, UNLIMITED, Quotas
from dispatch.core.states import State
from dispatch.core.types import MICRO, Head, Id, Lane, Load, Plan, Policy, Slot, Snapshot

NOBODY_ASKS = "no agent is asking"
Planner = Callable[[Snapshot, Memory], Plan]


@dataclass(frozen=True, slots=True)
class Asked:
    """The task asked about. `ahead`: tasks of its lane that start before it. `not_before`: microseconds or None."""

    head: Head
    lane: Lane
    ahead: int = 0
    state: State = State.QUEUED
    not_before: int | None = None
    retrying: bool = False


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason. `kind` says what `subject` names: pool, class, tenant, user, tool, capability, worker, lane, task;
    `part` is the tenant's own maximum in a class, and its subject is the class."""

    code: str
    kind: str
    subject: Id = None
    value: float | str | None = None  # whole numbers; costs in micro-units for budget_spent
    limit: float | str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All blockers; none: the next cycle starts the task. `holders`: who runs now, (kind, id, running), most first."""

    blockers: tuple[Blocker, ...]
    holders: tuple[tuple[str, Id, int], ...]

    @property
    def startable(self) -> bool:
        """Whether nothing is in the way."""
        return not self.blockers


def explain(snapshot: Snapshot, memory: Memory, asked: Asked, planner: Planner) -> Explanation:
    """All that keeps one task from starting. `memory` must have no open transaction; it is left as it was."""
    found: list[Blocker] = list(_state(asked, snapshot.now))
    relaxed = snapshot
    cost = _cost(snapshot, memory, asked)
    while True:
        fresh = [b for b in (*_limits(relaxed, asked.lane), *_budgets(relaxed, asked.lane, cost)) if b not in found]
        if not fresh:
            break
        found += fresh
        for blocker in fresh:
            relaxed = lift(relaxed, asked.lane, blocker)
    found += _turn(relaxed, memory, asked, planner)
    return Explanation(tuple(found), holders(snapshot.loads))


# What blocks


def _state(asked: Asked, now: int) -> Iterator[Blocker]:
    if asked.state is State.HELD:
        yield Blocker("held", "task", asked.head.id)
    if asked.not_before is not None and asked.not_before > now:
        yield Blocker("backing_off" if asked.retrying else "scheduled", "task", asked.head.id, now, asked.not_before)


def _limits(snapshot: Snapshot, lane: Lane) -> Iterator[Blocker]:
    quotas = Quotas(snapshot)
    policy = snapshot.policy
    yield from _pauses(policy, lane)
    yield from _maxima(quotas, snapshot, lane)
    if policy.budget is not None and quotas.running >= policy.budget:
        yield Blocker("pool_budget", "pool", None, quotas.running, policy.budget)
    capable = [slot for slot in snapshot.slots if fits(slot, lane.caps, lane.tenant)]
    if not capable:
        yield _nearest_miss(snapshot, lane)
    elif not any(slot.free > 0 for slot in capable):
        asking = quotas.running >= quotas.capacity or any(slot.free > 0 for slot in snapshot.slots)
        yield Blocker("no_free_slot", "worker", None, quotas.running if asking else NOBODY_ASKS, quotas.capacity)
    if quotas.room > 0 and quotas.room_for(quotas.of_class(lane.work_class)) <= 0:
        yield Blocker("reserved_for_others", "class", lane.work_class, quotas.room, quotas.held)


def _pauses(policy: Policy, lane: Lane) -> Iterator[Blocker]:
    tenant = policy.tenants.get(lane.tenant, NO_TENANT)
    if policy.paused:
        yield Blocker("paused", "pool")
    if policy.classes.get(lane.work_class, NO_CLASS).paused:
        yield Blocker("paused", "class", lane.work_class)
    if tenant.paused:
        yield Blocker("paused", "tenant", lane.tenant)
    for tool in lane.tools:
        if policy.tools.get(tool, NO_TOOL).paused:
            yield Blocker("paused", "tool", tool)


def _maxima(quotas: Quotas, snapshot: Snapshot, lane: Lane) -> Iterator[Blocker]:
    counts = [
        ("class_max", "class", lane.work_class, quotas.of_class(lane.work_class)),
        ("tenant_max", "tenant", lane.tenant, quotas.of_tenant(lane.tenant)),
        ("user_max", "user", lane.user, quotas.of_user(lane.tenant, lane.user)),
        *(("tool_max", "tool", tool, quotas.of_tool(tool)) for tool in lane.tools),
    ]
    if (part := quotas.parts.get((lane.work_class, lane.tenant))) is not None:
        counts.append(("tenant_max", "part", lane.work_class, part))
    for code, kind, subject, count in counts:
        if 0 <= count.cap <= count.run:
            yield Blocker(code, kind, subject, count.run, count.cap)
    for tool in lane.tools:
        until = snapshot.policy.tools.get(tool, NO_TOOL).cooldown_until
        if until is not None and until > snapshot.now:
            yield Blocker("tool_cooldown", "tool", tool, snapshot.now, until)


def _cost(snapshot: Snapshot, memory: Memory, asked: Asked) -> int:
    """What the task would be charged now."""
    key = (asked.lane.work_class, asked.lane.tenant, asked.head.type)
    return charge_for(asked.head.est, *known_costs(snapshot.policy, memory, key), snapshot.policy.max_task_cost)


def _budgets(snapshot: Snapshot, lane: Lane, cost: int) -> Iterator[Blocker]:
    for key, budget in snapshot.policy.cost_budgets.items():
        if budget.covers(lane.work_class, lane.tenant, lane.user) and budget.left < cost:
            yield Blocker("budget_spent", "budget", key, budget.limit - budget.left, budget.limit)


def _nearest_miss(snapshot: Snapshot, lane: Lane) -> Blocker:
    """The worker that lacks the fewest capabilities, and which."""
    lacking = min(
        ((len(lane.caps - s.caps), str(s.worker), s) for s in snapshot.slots if s.tenant in (None, lane.tenant)),
        default=None,
        key=lambda miss: miss[:2],
    )
    missing = lane.caps if lacking is None else lane.caps - lacking[2].caps
    nearest = None if lacking is None else lacking[2].worker
    return Blocker("no_capable_worker", "worker", nearest, ",".join(sorted(missing)), ",".join(sorted(lane.caps)))


def _turn(snapshot: Snapshot, memory: Memory, asked: Asked, planner: Planner) -> Iterator[Blocker]:
    """Whose turn it is once no limit is in the way."""
    known = next((lane.heads for lane in snapshot.lanes if lane.id == asked.lane.id), ())
    before = tuple(head for head in known if head.id != asked.head.id)[: asked.ahead]
    hidden = asked.ahead - len(before)
    if hidden <= 0 and _starts(_with_heads(snapshot, asked.lane, (*before, asked.head)), memory, asked, planner):
        return
    if asked.ahead:
        yield Blocker("behind_in_lane", "lane", asked.lane.id, asked.ahead, 0)
        if _starts(_with_heads(snapshot, asked.lane, (asked.head,)), memory, asked, planner):
            return
    yield Blocker("lower_share", "tenant", asked.lane.tenant, len(snapshot.lanes))


def _starts(snapshot: Snapshot, memory: Memory, asked: Asked, planner: Planner) -> bool:
    started = {assignment.task for assignment in planner(snapshot, memory).assignments}
    memory.rollback()
    return asked.head.id in started


def _with_heads(snapshot: Snapshot, lane: Lane, heads: tuple[Head, ...]) -> Snapshot:
    """The snapshot with these as the only heads of the lane, in this order."""
    here = replace(lane, heads=heads, queued=max(lane.queued, len(heads)), oldest=None)
    return replace(snapshot, lanes=(*(other for other in snapshot.lanes if other.id != lane.id), here))


def holders(loads: Iterable[Load]) -> tuple[tuple[str, Id, int], ...]:
    """Who runs now, (kind, id, running) for classes and tenants, most first."""
    counts: dict[tuple[str, Id], int] = {}
    for load in loads:
        for key in (("class", load.work_class), ("tenant", load.tenant)):
            counts[key] = counts.get(key, 0) + load.running
    return tuple((kind, key, n) for (kind, key), n in sorted(counts.items(), key=lambda c: (-c[1], str(c[0]))))


PASSING = frozenset({"no_free_slot", "behind_in_lane", "lower_share", "scheduled", "backing_off"})


def estimate(explanation: Explanation, snapshot: Snapshot, asked: Asked, starts_per_s: float) -> float | None:
    """Seconds until the task starts, at the rate at which its class starts tasks now; None when nothing tells.

    The lanes of a class take turns, so about (place in the lane) x (lanes of the class) tasks start before it, and
    never more than are queued. A wait that only an operator ends (PASSING lists the others) has no estimate.
    """
    if explanation.startable:
        return 0.0
    if any(blocker.code not in PASSING or blocker.value == NOBODY_ASKS for blocker in explanation.blockers):
        return None
    due = 0.0 if asked.not_before is None else max(0, asked.not_before - snapshot.now) / MICRO
    if {blocker.code for blocker in explanation.blockers} <= {"scheduled", "backing_off"}:
        return due
    peers = [lane for lane in snapshot.lanes if lane.work_class == asked.lane.work_class]
    before = min((asked.ahead + 1) * max(1, len(peers)), max(1, sum(lane.queued for lane in peers)))
    return due + before / starts_per_s if starts_per_s > 0 else None


# Lifting


def lift(snapshot: Snapshot, lane: Lane, blocker: Blocker) -> Snapshot:
    """The snapshot as if an operator had removed one blocker, and no more than that: a maximum rises by one."""
    policy = snapshot.policy
    if blocker.code in ("no_capable_worker", "no_free_slot"):
        extra = Slot(id=_new_id(snapshot), worker=_new_id(snapshot), slots=1, free=1, caps=lane.caps)
        return replace(snapshot, slots=(*snapshot.slots, extra))
    if blocker.code == "pool_budget":
        return replace(snapshot, policy=replace(policy, budget=Quotas(snapshot).running + 1))
    if blocker.code == "reserved_for_others":
        lent = {key: replace(c, lend=None) for key, c in policy.classes.items()}
        return replace(snapshot, policy=replace(policy, classes=lent))
    return replace(snapshot, policy=_LIFTS[blocker.kind](policy, lane, blocker))


def _new_id(snapshot: Snapshot) -> Id:
    ids = [slot.id for slot in snapshot.slots]
    if not ids:
        return lane_id_like(snapshot)
    return max(ids) + 1 if isinstance(ids[0], int) else max(ids) + "+"


def lane_id_like(snapshot: Snapshot) -> Id:
    """An id for the first slot of an empty fleet."""
    return 1 if not snapshot.lanes or isinstance(snapshot.lanes[0].id, int) else "+"


def _lift_pool(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    return replace(policy, paused=False)


def _lift_class(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    old = policy.classes.get(lane.work_class, NO_CLASS)
    new = replace(old, paused=False) if blocker.code == "paused" else replace(old, max=_one_more(blocker))
    return replace(policy, classes={**policy.classes, lane.work_class: new})


def _lift_tenant(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    old = policy.tenants.get(lane.tenant, NO_TENANT)
    new = replace(old, paused=False) if blocker.code == "paused" else replace(old, max=_one_more(blocker), borrow=None)
    return replace(policy, tenants={**policy.tenants, lane.tenant: new})


def _lift_part(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    old = policy.tenants.get(lane.tenant, NO_TENANT)
    new = replace(old, class_max={**old.class_max, lane.work_class: _one_more(blocker)})
    return replace(policy, tenants={**policy.tenants, lane.tenant: new})


def _lift_user(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    key = (lane.tenant, lane.user)
    new = replace(policy.users.get(key, NO_USER), max=_one_more(blocker))
    return replace(policy, users={**policy.users, key: new})


def _lift_tool(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    old = policy.tools.get(blocker.subject, NO_TOOL)
    if blocker.code == "paused":
        new = replace(old, paused=False)
    elif blocker.code == "tool_cooldown":
        new = replace(old, cooldown_until=None)
    else:
        new = replace(old, max=_one_more(blocker))
    return replace(policy, tools={**policy.tools, blocker.subject: new})


def _lift_budget(policy: Policy, lane: Lane, blocker: Blocker) -> Policy:
    new = replace(policy.cost_budgets[blocker.subject], left=UNLIMITED, refused=False)
    return replace(policy, cost_budgets={**policy.cost_budgets, blocker.subject: new})


def _one_more(blocker: Blocker) -> int:
    assert isinstance(blocker.value, int), "a maximum's blocker counts what runs"
    return min(blocker.value + 1, UNLIMITED)


_LIFTS = {
    "pool": _lift_pool,
    "class": _lift_class,
    "tenant": _lift_tenant,
    "part": _lift_part,
    "budget": _lift_budget,
    "user": _lift_user,
    "tool": _lift_tool,
}
