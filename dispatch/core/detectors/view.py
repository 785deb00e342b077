"""What detectors look at: the last minutes of a pool in equal steps, and a few facts of now. Integers throughout.

Times are milliseconds, shares parts per thousand. A line has one point a step, the newest last; None where nobody
sampled. Waiting counts startable work only (services/numbers.py): what is scheduled, backs off, is paused, held or
stopped by a limit of its own does not wait here, so no detector can take it for starvation.
"""

from dataclasses import dataclass

Waits = tuple[int, ...]  # first starts by bucket of their wait (core/samples.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step of a class or tenant."""

    queued: int = 0  #: startable, the least of the step
    running: int = 0
    age_ms: int | None = None  #: of what waited longest at the end of the step
    dispatched: int = 0
    slot_ms: int = 0
    target: int = 0  #: share of the slots that it is heading for, per mille (classes)
    waits: Waits = ()
    queue_n: int = 0
    queue_met: int = 0
    done_n: int = 0
    done_met: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One class or tenant with its policy and its points."""

    id: int
    slug: str
    points: tuple[Point | None, ...] = ()
    weight: int = 1_000_000
    level: int = 1
    min: int = 0
    max: int | None = None
    slo_queue_ms: int | None = None
    slo_done_ms: int | None = None
    step_ms: int = 5000  #: the width of a point

    @property
    def subject(self) -> str:
        """What a finding about this class is about."""
        return f"class:{self.slug}"

    def last(self, window_ms: int) -> tuple[Point, ...]:
        """The points of the last `window_ms` when all are there, else none: no verdict without a whole window."""
        steps = max(1, -(-window_ms // self.step_ms))
        found = tuple(point for point in self.points[-steps:] if point is not None)
        return found if len(found) == steps else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaths:
    """Dead letters of one task type of a tenant: within the window, and in the hour before it.

    `lost`: those whose last agent was lost, within the window of the rule about them.
    """

    tenant_id: int
    tenant: str
    type: str
    lately: int
    before: int
    lost: int = 0

    @property
    def subject(self) -> str:
        """What a finding about them is about."""
        return f"type:{self.tenant}/{self.type or '-'}"

    @property
    def kind(self) -> str:
        """The type in a sentence."""
        return f"type {self.type}" if self.type else "no type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """A worker and how many of its attempts stalled within the window."""

    worker_id: int
    worker: str
    stalled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One pool as it was at one moment. None where a fact is not known."""

    pool_id: int
    pool: str
    classes: tuple[Line, ...] = ()
    tenants: tuple[Line, ...] = ()
    slots: int = 0  #: live slots, cut to the pool's budget
    promotion_slots: int = 0
    paused: bool = False
    beat_age_ms: int | None = None  #: of the pool's dispatcher
    cycle_ms: int | None = None
    late_ms: int | None = None  #: how late the reconciler ran last
    deaths: tuple[Deaths, ...] = ()
    stalls: tuple[Stalls, ...] = ()

    def above(self, line: Line) -> tuple[Line, ...]:
        """The classes that go before another one: a better level, or the same level and more weight."""
        return tuple(
            other
            for other in self.classes
            if other.id != line.id and (other.level, -other.weight) < (line.level, -line.weight)
        )

    def target_slots(self, point: Point) -> int:
        """The slots that a class's share comes to, in thousandths of a slot."""
        return point.target * self.slots


def total(points: tuple[Point, ...], name: str) -> int:
    """A flow added up over points."""
    return sum(getattr(point, name) for point in points)
