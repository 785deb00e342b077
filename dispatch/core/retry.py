"""What happens to a task when an attempt ends: one pure decision for every outcome (contract.md, Counting).

Counted attempts (failed, lost, stalled, timed_out) lead to dead at `max_attempts`; losses also at `max_reclaims` + 1;
hand-backs (released, preempted, undelivered, tool_limited, operator) never count and end in held at `max_handbacks`.
Back-off is capped exponential with jitter; the jitter is an argument, so that a replay decides the same.
"""

from dataclasses import dataclass

from dispatch.core.states import COUNTED, HANDBACKS, LOSSES, Outcome, State
from dispatch.core.types import MICRO

FREE_LOSSES = 2  # lost and stalled tasks go back at once this many times
TOOL_LIMITED_DELAY = 60 * MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one task, durations in microseconds. None: no limit."""

    max_attempts: int = 3
    max_reclaims: int | None = None
    max_handbacks: int | None = 100
    backoff: int = 5 * MICRO
    backoff_max: int = 300 * MICRO


@dataclass(frozen=True, slots=True)
class Decision:
    """The task's next state, when it may start (None: now, or final) and the reason's code."""

    state: State
    not_before: int | None
    reason: str


def backoff(attempts: int, limits: Limits, jitter: int) -> int:
    """Microseconds to wait after the `attempts`-th counted attempt: base * 2^(n-1), capped, minus up to a quarter.

    `jitter` in 0..1_000_000 chooses within that quarter; 0 is the full delay.
    """
    exponent = min(max(attempts, 1) - 1, 40)
    full = min(limits.backoff << exponent, limits.backoff_max)
    return full - full * jitter // (4 * MICRO)


def after(
    outcome: Outcome,
    attempts: int,
    losses: int,
    handbacks: int,
    limits: Limits,
    now: int,
    jitter: int = 0,
    *,
    permanent: bool = False,
    retry_after: int | None = None,
    cancel_requested: bool = False,
) -> Decision:
    """Decide after one ended attempt.

    `attempts` (counted), `losses` (lost or stalled) and `handbacks` include the attempt that just ended.
    `retry_after` (microseconds) is a lower bound of the back-off, capped at `backoff_max`; for tool_limited it is
    the wait itself. After a requested cancel every end is cancelled.
    """
    if cancel_requested or outcome is Outcome.CANCELLED:
        return Decision(State.CANCELLED, None, "cancelled")
    if outcome is Outcome.SUCCEEDED:
        return Decision(State.SUCCEEDED, None, "succeeded")
    if outcome is Outcome.EXPIRED:
        return Decision(State.DEAD, None, "expired")
    if outcome in HANDBACKS:
        return _after_handback(outcome, handbacks, limits, now, retry_after)
    return _after_counted(outcome, attempts, losses, limits, now, jitter, permanent, retry_after)


def _after_handback(outcome: Outcome, handbacks: int, limits: Limits, now: int, retry_after: int | None) -> Decision:
    if limits.max_handbacks is not None and handbacks >= limits.max_handbacks:
        return Decision(State.HELD, None, "max_handbacks")
    if outcome is Outcome.TOOL_LIMITED:
        delay = TOOL_LIMITED_DELAY if retry_after is None else max(0, retry_after)
        if delay:
            return Decision(State.SCHEDULED, now + delay, outcome.word)
    return Decision(State.QUEUED, None, outcome.word)


def _after_counted(
    outcome: Outcome,
    attempts: int,
    losses: int,
    limits: Limits,
    now: int,
    jitter: int,
    permanent: bool,
    retry_after: int | None,
) -> Decision:
    assert outcome in COUNTED, outcome
    if permanent and outcome is Outcome.FAILED:
        return Decision(State.DEAD, None, "permanent")
    if attempts >= limits.max_attempts:
        return Decision(State.DEAD, None, "max_attempts")
    if outcome in LOSSES:
        if limits.max_reclaims is not None and losses > limits.max_reclaims:
            return Decision(State.DEAD, None, "max_reclaims")
        if losses <= FREE_LOSSES:
            return Decision(State.QUEUED, None, outcome.word)
    delay = max(backoff(attempts, limits, jitter), min(retry_after or 0, limits.backoff_max))
    if not delay:
        return Decision(State.QUEUED, None, outcome.word)
    return Decision(State.SCHEDULED, now + delay, outcome.word)
