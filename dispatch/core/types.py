"""What goes into a dispatch cycle and what comes out: immutable values with integer numbers.

Units: costs in micro-units of the pool's cost unit, weights in millionths, times in microseconds since the epoch
(durations in microseconds), slots as counts. `None` means "no limit" or "not set". Ids are the database's (any
orderable, hashable value works: the oracle adapter uses strings).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MICRO = 1_000_000

Id = Any  # int in the product, str in the oracle adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """One workload class. `lend` None lends the whole minimum."""

    weight: int = MICRO
    min: int = 0
    max: int | None = None
    lend: int | None = None
    level: int = 1
    aging_step: int | None = None
    max_wait: int | None = None
    default_cost: int | None = None
    preempt: bool = True  # may ask borrowers to yield while below its floor (if the pool allows it at all)
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """One tenant. Its cap is min(max, nominal + borrow)."""

    weight: int = MICRO
    nominal: int = 0
    max: int | None = None
    borrow: int | None = None
    user_max: int | None = None
    class_max: Mapping[Id, int] = field(default_factory=dict)  # classes in which it may run only so many
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPolicy:
    """One user of a tenant; users without a row have weight 1 and the tenant's (else the pool's) user_max."""

    weight: int = MICRO
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """One tool: concurrent maximum, cooldown end."""

    max: int | None = None
    cooldown_until: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBudget:
    """What a tenant may still spend in one window: `limit` less what is settled and what running tasks reserve.

    Counts one class or user only where one is named, and never the class `spared` (the one that it degrades to).
    `refused`: it kept something from starting the last time. `until`: when a new window begins (None: never).
    """

    tenant: Id
    left: int
    limit: int = 0
    work_class: Id = None
    user: Id = None
    spared: Id = None
    refused: bool = False
    until: int | None = None

    def covers(self, work_class: Id, tenant: Id, user: Id) -> bool:
        """Whether a task of this class, tenant and user is paid from it."""
        return (
            tenant == self.tenant
            and self.work_class in (None, work_class)
            and self.user in (None, user)
            and (self.spared is None or work_class != self.spared)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The pool's policy. `users` is keyed (tenant, user)."""

    budget: int | None = None
    promotion_slots: int = 0
    user_max: int | None = None
    max_task_cost: int | None = None
    debt_halflife: int | None = None
    reclaim_min_runtime: int | None = None  # None: never ask borrowers to yield
    reclaim_dead_zone: int = 0  # a floor short by no more than this asks nobody to yield
    reclaim_per_round: int | None = None  # at most so many new yields in one cycle
    paused: bool = False
    classes: Mapping[Id, ClassPolicy] = field(default_factory=dict)
    tenants: Mapping[Id, TenantPolicy] = field(default_factory=dict)
    users: Mapping[tuple[Id, Id], UserPolicy] = field(default_factory=dict)
    tools: Mapping[Id, ToolPolicy] = field(default_factory=dict)
    cost_budgets: Mapping[Id, CostBudget] = field(default_factory=dict)
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One startable task at the front of its lane. `est` is the submitter's hint (None: unknown)."""

    id: Id
    enqueued_at: int
    est: int | None = None
    type: str = ""
    avoid: Id = None  # the worker that failed it last: another one is preferred, never waited for
    again: bool = False  # its first agent was lost or stalled: it takes up again the turn it was given


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane with queued work: its first heads in start order and its oldest startable task."""

    id: Id
    work_class: Id
    tenant: Id
    user: Id
    caps: frozenset[str] = frozenset()
    tools: tuple[Id, ...] = ()
    queued: int = 1
    heads: tuple[Head, ...] = ()
    oldest: Head | None = None  # None: the first head is the oldest


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A session that can take work now. `free` is what it asks for; a session that asks for nothing still counts
    as capacity (`slots`) while it is alive. `load` is the charged cost of what it runs."""

    id: Id
    worker: Id
    slots: int
    free: int
    caps: frozenset[str] = frozenset()
    weight: int = MICRO
    deficit: int = 0
    load: int = 0
    tenant: Id = None  # bound to this tenant's tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What runs, counted per lane from live leases (undelivered offers included)."""

    work_class: Id
    tenant: Id
    user: Id
    caps: frozenset[str] = frozenset()
    tools: tuple[Id, ...] = ()
    running: int = 1
    promoted: int = 0
    yielding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One running task, listed only where single ones matter: yield candidates and overruns."""

    id: Id
    work_class: Id
    tenant: Id
    user: Id
    started_at: int
    charged: int
    session: Id = None  # None: any waiting task could use its slot
    cost: int = 0  # elapsed so far
    yieldable: bool = True
    yielding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One attempt that ended since the last cycle: its true cost against what was charged for it."""

    work_class: Id
    tenant: Id
    user: Id
    worker: Id = None
    type: str = ""
    charged: int = 0
    actual: int = 0
    hint: int | None = None
    completed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one cycle may look at."""

    now: int
    policy: Policy
    slots: tuple[Slot, ...] = ()
    lanes: tuple[Lane, ...] = ()
    loads: tuple[Load, ...] = ()
    running: tuple[Running, ...] = ()
    ended: tuple[Ended, ...] = ()


class Assignment(NamedTuple):
    """One decision: this task to this session, charged so much, by tier P(romotion), G(uarantee) or W(eighted)."""

    task: Id
    lane: Id
    session: Id
    worker: Id
    charged: int
    tier: str


class Pick(NamedTuple):
    """Why an assignment won: what the decision record shows. `runner_up` is a lane id."""

    task: Id
    session: Id
    tier: str
    candidates: int
    deficit: int
    runner_up: Id = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one cycle: what to start, whom to ask to yield, what else was charged."""

    assignments: tuple[Assignment, ...] = ()
    yields: tuple[Id, ...] = ()
    overruns: Mapping[Id, int] = field(default_factory=dict)  # task → its new charge
    deficits: Mapping[Id, int] = field(default_factory=dict)  # worker → new deficit, those worth storing
    picks: tuple[Pick, ...] = ()  # the first ones of the cycle only
    refused_by: frozenset[Id] = frozenset()  # cost budgets that kept something from starting
