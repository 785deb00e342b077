"""Leases in the core: intervals and outages, as pure arithmetic."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.core.lease import (
    BEATS_PER_S,
    MAX_EXTENSIONS,
    SPREAD,
    Span,
    Verdict,
    heartbeat_every_s,
    judge_expired,
    judge_overdue,
)

S = 1_000_000


def judge(*web: Span, renewed: int = 0, ttl: int = 30, extensions: int = 0) -> Verdict:
    return judge_expired(
        renewed_at=renewed * S, ttl=ttl * S, extensions=extensions, web=[(a * S, b * S) for a, b in web]
    )


@pytest.mark.parametrize(
    ("web", "verdict"),
    [
        ([(-100, 31)], Verdict.RECLAIM),  # up all the time
        ([(-100, 29)], Verdict.EXTEND),  # went away before a whole TTL was over
        ([(2, 31)], Verdict.EXTEND),  # came back too late
        ([(1, 31)], Verdict.RECLAIM),
        ([(-100, 10), (12, 31)], Verdict.EXTEND),  # two halves do not make a whole
        ([(-100, 10), (0, 30)], Verdict.RECLAIM),  # one of two is enough
        ([(-100, -50)], Verdict.EXTEND),  # gone before the lease was renewed
        ([], Verdict.RECLAIM),  # agents that do not come over HTTP
    ],
)
def test_only_an_agent_that_could_be_heard_is_dead(web: list[Span], verdict: Verdict) -> None:
    assert judge(*web) is verdict


@pytest.mark.parametrize(
    ("web", "verdict"),
    [
        ([(-100, 20)], Verdict.RECLAIM),
        ([(0, 20)], Verdict.RECLAIM),
        ([(1, 20)], Verdict.EXTEND),  # came after the last renewal
        ([(-100, 19)], Verdict.EXTEND),  # away just now
        ([(-100, 10), (9, 20)], Verdict.EXTEND),
        ([], Verdict.RECLAIM),
    ],
)
def test_who_is_over_its_time_had_to_be_heard_since_the_last_renewal(web: list[Span], verdict: Verdict) -> None:
    spans = [(a * S, b * S) for a, b in web]
    assert judge_overdue(renewed_at=0, now=20 * S, extensions=0, web=spans) is verdict
    assert judge_overdue(renewed_at=0, now=20 * S, extensions=MAX_EXTENSIONS, web=spans) is Verdict.RECLAIM


def test_patience_ends() -> None:
    assert judge((30, 31), extensions=MAX_EXTENSIONS - 1) is Verdict.EXTEND
    assert judge((30, 31), extensions=MAX_EXTENSIONS) is Verdict.RECLAIM


@given(
    st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 99)), min_size=1, max_size=6),
    st.integers(-99, 99),
    st.integers(1, 99),
    st.integers(0, 9),
)
def test_more_listeners_never_save_a_lease(spans: list[Span], renewed: int, ttl: int, extensions: int) -> None:
    web = [(start, start + length) for start, length in spans]
    one = judge(web[0], renewed=renewed, ttl=ttl, extensions=extensions)
    every = judge(*web, renewed=renewed, ttl=ttl, extensions=extensions)
    assert (one, every) != (Verdict.RECLAIM, Verdict.EXTEND)


@given(st.floats(0.1, 1000), st.floats(1, 10_000), st.integers(0, 10**7), st.integers(1, 2**63 - 1))
def test_the_interval_is_never_below_the_setting_nor_stretched_beyond_half_the_ttl(
    base: float, ttl: float, sessions: int, session: int
) -> None:
    every = heartbeat_every_s(base, ttl, sessions, session)
    assert base <= every <= max(base, ttl / 2)


@given(st.integers(0, 12 * BEATS_PER_S), st.integers(1, 2**40))
def test_sessions_made_in_a_row_are_spread_over_a_tenth_and_stay_under_the_bound(sessions: int, first: int) -> None:
    told = sorted(heartbeat_every_s(10, 30, sessions, first + n) for n in range(100))
    shortest = max(10.0, sessions / BEATS_PER_S)
    assert shortest <= told[0] < told[-1] <= shortest * (1 + SPREAD)
    gaps = [after - before for before, after in pairwise(told)]
    assert max(gaps) < 4 * shortest * SPREAD / len(told), "no two sessions in a row beat together"
    assert sum(1 / every for every in told) * sessions / len(told) <= BEATS_PER_S * (1 + 1e-9)
