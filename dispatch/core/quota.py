"""Limits: what runs, what may still start, what is kept back. The only place that judges whether a lane may run.

Cost budgets are the one limit that depends on the task: a lane waits as soon as its next one costs more than is left.

Counts come from live leases (`Load`), never from a cache. Within a cycle counts only grow and room only shrinks, so
a lane that was refused stays refused until the next cycle: the loop and its heaps rely on that.
The predicates below are used by the dispatch loop and, one by one, by explain.
"""

from collections.abc import Iterable

from dispatch.core.types import (
    ClassPolicy,
    CostBudget,
    Id,
    Lane,
    Policy,
    Snapshot,
    TenantPolicy,
    ToolPolicy,
    UserPolicy,
)

UNLIMITED = 1 << 62

NO_CLASS = ClassPolicy()
NO_TENANT = TenantPolicy()
NO_USER = UserPolicy()
NO_TOOL = ToolPolicy()


class Count:
    """How many tasks of one subject run, and the cap (UNLIMITED: none; -1: paused or cooling down)."""

    __slots__ = ("cap", "run")

    def __init__(self, cap: int, run: int = 0) -> None:
        self.cap = cap
        self.run = run


class ClassCount(Count):
    """A class also has a floor (`emin`, scaled to what lives), a part never lent (`keep`), and promoted tasks."""

    __slots__ = ("emin", "keep", "yielding")

    def __init__(self, cap: int, keep: int) -> None:
        super().__init__(cap)
        self.keep = keep
        self.emin = 0
        self.yielding = 0

    @property
    def hold(self) -> int:
        """Idle slots that this class keeps back from the others."""
        return max(0, self.keep - self.run)


class Purse:
    """What is left of one cost budget inside this cycle, in micro-units; `refused`: too little for some task."""

    __slots__ = ("budget", "id", "left", "refused")

    def __init__(self, key: Id, budget: CostBudget) -> None:
        self.id = key
        self.budget = budget
        self.left = budget.left
        self.refused = False


def tenant_cap(policy: TenantPolicy) -> int:
    """The hard cap of a tenant: min(max, nominal + borrow)."""
    cap = UNLIMITED if policy.max is None else policy.max
    return cap if policy.borrow is None else min(cap, policy.nominal + policy.borrow)


def user_cap(policy: Policy, tenant: Id, user: Id) -> int:
    """A user's own maximum, else its tenant's, else the pool's."""
    own = policy.users.get((tenant, user), NO_USER).max
    if own is None:
        own = policy.tenants.get(tenant, NO_TENANT).user_max
    if own is None:
        own = policy.user_max
    return UNLIMITED if own is None else own


def class_cap(policy: ClassPolicy) -> int:
    """A class's maximum; -1 while it is paused."""
    return -1 if policy.paused else UNLIMITED if policy.max is None else policy.max


def tool_cap(policy: ToolPolicy, now: int) -> int:
    """A tool's maximum; -1 while it is paused or cools down."""
    if policy.paused or (policy.cooldown_until is not None and policy.cooldown_until > now):
        return -1
    return UNLIMITED if policy.max is None else policy.max


class Quotas:
    """All counts of one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.policy = policy = snapshot.policy
        self.now = snapshot.now
        self.classes: dict[Id, ClassCount] = {}
        self.tenants: dict[Id, Count] = {}
        self.users: dict[tuple[Id, Id], Count] = {}
        self.parts = {  # of classes, for tenants with a maximum of their own there
            (class_id, tenant): Count(most)
            for tenant, own in policy.tenants.items()
            for class_id, most in own.class_max.items()
        }
        self.purses: dict[Id, list[Purse]] = {}  # by tenant
        for key, cost_budget in policy.cost_budgets.items():
            self.purses.setdefault(cost_budget.tenant, []).append(Purse(key, cost_budget))
        self._user_runs: dict[tuple[Id, Id], int] = {}
        self.tools: dict[Id, Count] = {}
        self.running = 0
        self.promoted = 0
        self.yielding = 0
        for class_id in policy.classes:
            self.of_class(class_id)
        self._count(snapshot)
        free = sum(slot.free for slot in snapshot.slots if slot.free > 0)
        self.capacity = sum(slot.slots for slot in snapshot.slots)
        budget = UNLIMITED if policy.budget is None else policy.budget
        self.room = 0 if policy.paused else max(0, min(free, budget - self.running))
        self.held = sum(c.hold for c in self.classes.values())
        self._scale_floors(min(budget, self.capacity))

    def _count(self, snapshot: Snapshot) -> None:
        users = self._user_runs
        for load in snapshot.loads:
            running = load.running
            self.running += running
            self.promoted += load.promoted
            count = self.of_class(load.work_class)
            count.run += running
            if load.yielding:
                self.yielding += load.yielding
                count.yielding += load.yielding
            self.of_tenant(load.tenant).run += running
            if self.parts and (part := self.parts.get((load.work_class, load.tenant))) is not None:
                part.run += running
            user = (load.tenant, load.user)
            users[user] = users.get(user, 0) + running
            for tool in load.tools:
                self.of_tool(tool).run += running

    def _scale_floors(self, capacity: int) -> None:
        floors = {class_id: p.min for class_id, p in self.policy.classes.items()}
        total, promotion = sum(floors.values()), self.policy.promotion_slots
        fits = total == 0 or total + promotion <= capacity
        for class_id, floor in floors.items():
            self.classes[class_id].emin = floor if fits else floor * max(0, capacity - promotion) // total

    def of_class(self, class_id: Id) -> ClassCount:
        """The count of one class, made when first asked for."""
        count = self.classes.get(class_id)
        if count is None:
            policy = self.policy.classes.get(class_id, NO_CLASS)
            lent = policy.min if policy.lend is None else policy.lend
            count = self.classes[class_id] = ClassCount(class_cap(policy), policy.min - lent)
        return count

    def of_tenant(self, tenant: Id) -> Count:
        """The count of one tenant over all classes of the pool."""
        count = self.tenants.get(tenant)
        if count is None:
            policy = self.policy.tenants.get(tenant, NO_TENANT)
            count = self.tenants[tenant] = Count(-1 if policy.paused else tenant_cap(policy))
        return count

    def of_user(self, tenant: Id, user: Id) -> Count:
        """The count of one user of one tenant over all classes of the pool."""
        key = (tenant, user)
        count = self.users.get(key)
        if count is None:
            count = self.users[key] = Count(user_cap(self.policy, tenant, user), self._user_runs.get(key, 0))
        return count

    def of_tool(self, tool: Id) -> Count:
        """The count of one tool."""
        count = self.tools.get(tool)
        if count is None:
            count = self.tools[tool] = Count(tool_cap(self.policy.tools.get(tool, NO_TOOL), self.now))
        return count

    def narrow(self, lane: Lane) -> tuple[Count, ...]:
        """The counts of a lane beside class, tenant and user: the tenant's part of the class, the tools."""
        tools = tuple(self.of_tool(tool) for tool in lane.tools) if lane.tools else ()
        part = self.parts.get((lane.work_class, lane.tenant)) if self.parts else None
        return tools if part is None else (part, *tools)

    def purses_of(self, lane: Lane) -> tuple[Purse, ...]:
        """The cost budgets that a task of the lane is paid from."""
        if not self.purses:
            return ()
        path = (lane.work_class, lane.tenant, lane.user)
        return tuple(purse for purse in self.purses.get(lane.tenant, ()) if purse.budget.covers(*path))

    def refused_by(self) -> frozenset[Id]:
        """The cost budgets that were too small for the next task of some lane in this cycle."""
        return frozenset(purse.id for purses in self.purses.values() for purse in purses if purse.refused)

    def room_for(self, count: ClassCount) -> int:
        """Slots that this class may still take: the room less what the other classes keep back."""
        kept = count.keep - count.run
        return self.room - self.held + (kept if kept > 0 else 0)

    def class_open(self, count: ClassCount) -> bool:
        """Whether one more task of the class may start now."""
        return count.run < count.cap and self.room_for(count) > 0

    def within_limits(self, lane: Lane) -> bool:
        """Whether one more task of the lane breaks no limit of its own; room and workers are not asked."""
        counts: Iterable[Count] = (
            self.of_class(lane.work_class),
            self.of_tenant(lane.tenant),
            self.of_user(lane.tenant, lane.user),
            *self.narrow(lane),
        )
        spent = any(purse.left <= 0 or purse.refused or purse.budget.refused for purse in self.purses_of(lane))
        return not spent and all(count.run < count.cap for count in counts)

    def start(self, count: ClassCount, others: tuple[Count, ...]) -> None:
        """Count one more running task of a class and of its tenant, user and tools."""
        if count.run < count.keep:
            self.held -= 1
        count.run += 1
        self.room -= 1
        for other in others:
            other.run += 1
