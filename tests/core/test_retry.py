"""Every outcome of an attempt has one decision."""

import pytest

from dispatch.core.retry import Limits, after, backoff
from dispatch.core.states import Outcome, State, permitted
from dispatch.core.types import MICRO

NOW = 1_000 * MICRO
LIMITS = Limits(max_attempts=3, max_reclaims=1, max_handbacks=5, backoff=5 * MICRO, backoff_max=300 * MICRO)


@pytest.mark.parametrize(
    ("outcome", "attempts", "losses", "handbacks", "state", "delay", "reason"),
    [
        (Outcome.SUCCEEDED, 0, 0, 0, State.SUCCEEDED, None, "succeeded"),
        (Outcome.CANCELLED, 0, 0, 0, State.CANCELLED, None, "cancelled"),
        (Outcome.EXPIRED, 1, 0, 0, State.DEAD, None, "expired"),
        (Outcome.FAILED, 1, 0, 0, State.SCHEDULED, 5, "failed"),
        (Outcome.FAILED, 2, 0, 0, State.SCHEDULED, 10, "failed"),
        (Outcome.FAILED, 3, 0, 0, State.DEAD, None, "max_attempts"),
        (Outcome.TIMED_OUT, 1, 0, 0, State.SCHEDULED, 5, "timed_out"),
        (Outcome.LOST, 1, 1, 0, State.QUEUED, None, "lost"),
        (Outcome.STALLED, 2, 2, 0, State.DEAD, None, "max_reclaims"),
        (Outcome.LOST, 3, 1, 0, State.DEAD, None, "max_attempts"),
        (Outcome.RELEASED, 2, 0, 1, State.QUEUED, None, "released"),
        (Outcome.PREEMPTED, 2, 0, 4, State.QUEUED, None, "preempted"),
        (Outcome.UNDELIVERED, 0, 0, 5, State.HELD, None, "max_handbacks"),
        (Outcome.OPERATOR, 0, 0, 1, State.QUEUED, None, "operator"),
        (Outcome.TOOL_LIMITED, 0, 0, 1, State.SCHEDULED, 60, "tool_limited"),
        (Outcome.TOOL_LIMITED, 0, 0, 5, State.HELD, None, "max_handbacks"),
    ],
)
def test_decision(outcome, attempts, losses, handbacks, state, delay, reason):
    decision = after(outcome, attempts, losses, handbacks, LIMITS, NOW)
    assert decision.state is state
    assert decision.not_before == (None if delay is None else NOW + delay * MICRO)
    assert decision.reason == reason
    assert permitted(State.LEASED, decision.state)


def test_losses_go_back_at_once_twice_then_with_backoff():
    limits = Limits(max_attempts=10, max_reclaims=None)
    states = [after(Outcome.LOST, n, n, 0, limits, NOW).state for n in (1, 2, 3)]
    assert states == [State.QUEUED, State.QUEUED, State.SCHEDULED]


def test_permanent_failure_is_dead_at_once_and_only_a_failure_can_be_permanent():
    assert after(Outcome.FAILED, 1, 0, 0, LIMITS, NOW, permanent=True).reason == "permanent"
    assert after(Outcome.LOST, 1, 1, 0, LIMITS, NOW, permanent=True).state is State.QUEUED


def test_retry_after_is_a_lower_bound_capped_at_the_longest_backoff():
    wait = after(Outcome.FAILED, 1, 0, 0, LIMITS, NOW, retry_after=20 * MICRO)
    assert wait.not_before == NOW + 20 * MICRO
    short = after(Outcome.FAILED, 2, 0, 0, LIMITS, NOW, retry_after=MICRO)
    assert short.not_before == NOW + 10 * MICRO
    long = after(Outcome.FAILED, 1, 0, 0, LIMITS, NOW, retry_after=10**6 * MICRO)
    assert long.not_before == NOW + 300 * MICRO


def test_tool_limited_waits_exactly_as_long_as_the_tool_says():
    assert after(Outcome.TOOL_LIMITED, 0, 0, 1, LIMITS, NOW, retry_after=7 * MICRO).not_before == NOW + 7 * MICRO


def test_every_end_after_a_requested_cancel_is_cancelled():
    for outcome in Outcome:
        assert after(outcome, 1, 0, 0, LIMITS, NOW, cancel_requested=True).state is State.CANCELLED


def test_backoff_doubles_is_capped_and_jitter_takes_at_most_a_quarter():
    assert [backoff(n, LIMITS, 0) // MICRO for n in (1, 2, 3, 7, 60)] == [5, 10, 20, 300, 300]
    assert backoff(3, LIMITS, MICRO) == 15 * MICRO
