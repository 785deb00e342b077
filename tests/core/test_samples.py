"""Percentiles out of buckets, added counts, and the resolution for a span."""

import pytest

from dispatch.core.samples import KEEP_S, WAIT_BUCKETS_S, add_counts, percentile, step_for


def test_counts_are_added_whatever_their_length() -> None:
    assert add_counts([[1, 2], [], [1, 0, 5]]) == [2, 2, 5]
    assert add_counts([]) == []


def test_a_percentile_lies_inside_its_bucket() -> None:
    waits = [0] * (len(WAIT_BUCKETS_S) + 1)
    waits[WAIT_BUCKETS_S.index(10.0)] = 100  # 100 waits between 5 and 10 s
    assert percentile(waits, 0.5) == pytest.approx(7.5)
    assert percentile(waits, 0.99) == pytest.approx(9.95)
    waits[-1] = 100
    assert percentile(waits, 0.99) == WAIT_BUCKETS_S[-1]
    assert percentile([], 0.5) is None
    assert percentile([0, 0], 0.5) is None


@pytest.mark.parametrize(
    ("span_s", "points", "step"),
    [(60, 300, 1), (900, 90, 10), (3600, 300, 10), (7200, 2000, 10), (86400, 300, 60), (86400 * 28, 300, 900)],
)
def test_the_coarsest_resolution_that_is_fine_enough_and_kept(span_s: float, points: int, step: int) -> None:
    assert step_for(span_s, points) == step
    assert span_s <= KEEP_S.get(step, span_s)
