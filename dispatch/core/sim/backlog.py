"""What becomes of a backlog as it stands under a policy: the core on a virtual clock, nothing new arriving.

The clock begins at the snapshot's time, so that ages, cooldowns and what the scheduler remembers stay true. Ids are
texts here (simulations have texts). Every slot of a live session asks for work; cost budgets are not counted; a lane
is taken in the order of enqueueing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dispatch.core.memory import Memory
from dispatch.core.policies import Planner
from dispatch.core.sim.report import Report
from dispatch.core.sim.scenario import Doc, Scenario
from dispatch.core.sim.world import World
from dispatch.core.types import MICRO, Id, Policy, Slot

T = TypeVar("T")

WINDOW = 600 * MICRO  # shares are those of this time
TICK = 60 * MICRO  # something may become startable by time alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One running task: its workload line, the session, how long it runs already (microseconds), its charge."""

    spec: Doc
    session: Id
    ran: int
    charged: int
    promoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits (workload lines, scenario.py), what runs and where, at a time in microseconds."""

    now: int
    slots: tuple[Slot, ...]
    workload: tuple[Doc, ...]
    held: Sequence[Held] = ()


def drain(backlog: Backlog, policy: Policy, planner: Planner, memory: Memory, *, span: int, most: int) -> Report:
    """Run for `span` microseconds or until `most` tasks have started.

    The report's `early` are the shares of the slot time of WINDOW; `last_start` is in seconds since the start. The
    memory is changed.
    """
    scenario = Scenario(
        name="backlog",
        policy=texts(policy),
        slots=tuple(_asking(slot) for slot in backlog.slots),
        workload=backlog.workload,
        horizon=backlog.now + span,
        warmup=backlog.now,
        start=backlog.now,
        most=most,
        tick=TICK,
    )
    world = World(scenario, planner)
    world.memory = memory
    for held in backlog.held:
        world.occupy(held.spec, held.session, held.ran, held.charged, held.promoted)
    early: Counter[str] = Counter()
    world.agenda.at(backlog.now + WINDOW, lambda: early.update(world.meter.busy))
    report = world.run()
    busy = early or world.meter.busy
    whole = busy["all:*"]
    report["early"] = {name: n / whole if whole else 0.0 for name, n in busy.items()}
    report["last_start"] = {name: (at - backlog.now) / MICRO for name, at in world.meter.last.items()}
    return report


def _asking(slot: Slot) -> Slot:
    """A session is a worker of its own here, and all its slots ask."""
    return replace(slot, worker=slot.id, free=slot.slots, load=0, deficit=0, tenant=text(slot.tenant))


def text(id_: Id) -> Id:
    """An id as simulations have it; None stays None."""
    return None if id_ is None else str(id_)


def texts(policy: Policy) -> Policy:
    """The policy with texts for ids, without cost budgets."""
    return replace(
        policy,
        classes=_texts(policy.classes),
        tenants={str(id_): replace(one, class_max=_texts(one.class_max)) for id_, one in policy.tenants.items()},
        users={(str(tenant), str(user)): one for (tenant, user), one in policy.users.items()},
        tools=_texts(policy.tools),
        cost_budgets={},
    )


def _texts(values: Mapping[Id, T]) -> dict[Id, T]:
    return {str(id_): value for id_, value in values.items()}
