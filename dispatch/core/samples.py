"""Arithmetic of samples: buckets of waits, percentiles out of them, which resolution serves which span. Pure."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

#: upper bounds of the buckets that waits are counted in, in seconds; the last bucket has none
WAIT_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)

STEPS = (1, 10, 60, 900)  #: seconds; each is rolled up from the one before
KEEP_S = {1: 900, 10: 3 * 3600, 60: 2 * 86400}  #: how long each is kept; 900 as long as the settings say


def step_for(span_s: float, points: int, finest: int = STEPS[0]) -> int:
    """The resolution for a span that should be drawn with about so many points: the coarsest one that is fine enough,
    and that is still kept for all of the span; tenants and the pool have none finer than 10 s."""
    fine = [step for step in STEPS if step * points <= span_s] or [STEPS[0]]
    kept = [step for step in STEPS if span_s <= KEEP_S.get(step, span_s)]
    return max(fine[-1], kept[0], finest)


def add_counts(counts: Iterable[Sequence[int]]) -> list[int]:
    """Counts of several samples added bucket by bucket; short lists end in zeros."""
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]


def percentile(counts: Sequence[int], part: float) -> float | None:
    """The wait that `part` (0..1) of the counted ones did not exceed, inside a bucket by proportion; None: no waits.

    What is beyond the last bound counts as that bound.
    """
    total = sum(counts)
    if total == 0:
        return None
    rank, below = part * total, 0
    for number, count in enumerate(counts):
        if count and below + count >= rank:
            low = WAIT_BUCKETS_S[number - 1] if number else 0.0
            high = WAIT_BUCKETS_S[min(number, len(WAIT_BUCKETS_S) - 1)]
            return low + (high - low) * max(0.0, rank - below) / count if high > low else high
        below += count
    return WAIT_BUCKETS_S[-1]
