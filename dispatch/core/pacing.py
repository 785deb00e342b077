"""How many tasks of a bulk job may move now: rate, room in flight, a canary first, a brake when too many fail again.

Pure; numbers in millionths (rates per second, shares, credit), times in microseconds. A canary goes first and all of
it must have ended before the rest goes; the share that died again must not be above `stop_above` (a canary without one:
none may). Later the same share is watched from MIN_ENDED ended tasks on.
"""

from dataclasses import dataclass

from dispatch.core.types import MICRO

MIN_ENDED = 10  # ended tasks before the brake judges
BURST_S = 2  # seconds of the rate that may be saved up


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace that was asked for; None: no limit."""

    rate: int | None = None
    max_in_flight: int | None = None
    canary: int | None = None
    stop_above: int | None = None

    @property
    def watches(self) -> bool:
        """Whether it matters what becomes of the tasks that moved."""
        return any(limit is not None for limit in (self.max_in_flight, self.canary, self.stop_above))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a job is: `moved` tasks, of which `well` and `again` (dead again) have ended; `pending` ones to go."""

    state: str  # canary or running
    pending: int
    moved: int = 0
    well: int = 0
    again: int = 0
    credit: int = 0
    elapsed: int = 0

    @property
    def in_flight(self) -> int:
        """Moved and not ended."""
        return self.moved - self.well - self.again


@dataclass(frozen=True, slots=True)
class Step:
    """Move so many now; the job's state before they move, what is left of the credit, why it stopped."""

    take: int
    state: str
    credit: int
    note: str = ""


def step(pace: Pace, at: Progress, batch: int) -> Step:
    """Decide one step; a job with nothing left is `done`, one that hurts is `stopped`."""
    credit = _credit(pace, at)
    if _hurts(pace, at):
        return Step(0, "stopped", 0, f"{at.again} of {at.well + at.again} that ended were dead again")
    state = at.state
    if state == "canary" and at.moved >= (pace.canary or 0) and not at.in_flight:
        state = "running"
    if not at.pending:
        return Step(0, "done", 0) if state == "running" or not at.in_flight else Step(0, state, credit)
    room = [batch, at.pending]
    if state == "canary":
        room.append((pace.canary or 0) - at.moved)
    if pace.max_in_flight is not None:
        room.append(pace.max_in_flight - at.in_flight)
    if pace.rate is not None:
        room.append(credit // MICRO)
    take = max(0, min(room))
    return Step(take, state, credit - take * MICRO if pace.rate is not None else 0)


def _credit(pace: Pace, at: Progress) -> int:
    if pace.rate is None:
        return 0
    most = max(MICRO, pace.rate * BURST_S)
    return min(most, at.credit + pace.rate * max(0, at.elapsed) // MICRO)


def _hurts(pace: Pace, at: Progress) -> bool:
    ended = at.well + at.again
    if at.state == "canary":
        judged = at.moved >= min(pace.canary or 0, at.moved + at.pending) and not at.in_flight and ended > 0
    else:
        judged = pace.stop_above is not None and ended >= MIN_ENDED
    return judged and at.again * MICRO > (pace.stop_above or 0) * ended
