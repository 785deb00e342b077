"""When to stop trusting a worker or a task type: two pure rules over what ended lately.

Quarantine: a session under which so many different tasks failed or stalled in a row, without a success between, while
others succeed with the same types. Tasks without a type, or of types that nobody succeeds with, say nothing about the
worker, and lost leases never count. Breaker: a task type that fails on many workers and hardly ever succeeds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dispatch.core.types import Id

BREAKER_WORKERS = 5  # different workers that must have failed
SUCCESS_PART = 10  # it trips below a tenth of successes


@dataclass(frozen=True, slots=True)
class Streak:
    """What one session has failed or stalled at since its last success: different tasks by type."""

    session: Id
    worker: Id
    tasks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """How one task type of one tenant did lately in one pool."""

    pool: Id
    tenant: Id
    type: str
    failures: int
    workers: int
    successes: int


def to_quarantine(streak: Streak, work_elsewhere: Collection[str], threshold: int) -> bool:
    """Whether the session's worker gets no more work; a threshold of 0 turns the rule off."""
    damning = sum(count for kind, count in streak.tasks.items() if kind and kind in work_elsewhere)
    return 0 < threshold <= damning


def trips(record: Record, threshold: int) -> bool:
    """Whether tasks of the type are set aside; a threshold of 0 turns the rule off. Tasks without a type never are."""
    ended = record.failures + record.successes
    return (
        record.type != ""
        and 0 < threshold <= record.failures
        and record.workers >= BREAKER_WORKERS
        and record.successes * SUCCESS_PART < ended
    )
