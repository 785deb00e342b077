"""The rules of quarantine and breakers."""

import pytest

from dispatch.core.protection import Record, Streak, to_quarantine, trips


@pytest.mark.parametrize(
    ("tasks", "working", "threshold", "expected"),
    [
        ({"a": 10}, {"a"}, 10, True),
        ({"a": 9}, {"a"}, 10, False),
        ({"a": 6, "b": 4}, {"a", "b"}, 10, True),
        ({"a": 6, "b": 40}, {"a"}, 10, False),  # nobody succeeds with b
        ({"a": 10}, set(), 10, False),
        ({"a": 1000}, {"a"}, 0, False),
        ({"": 40}, {""}, 10, False),  # no type: nothing says that others did the same
    ],
)
def test_only_tasks_that_others_can_do_speak_against_a_worker(
    tasks: dict[str, int], working: set[str], threshold: int, expected: bool
) -> None:
    assert to_quarantine(Streak(1, 1, tasks), working, threshold) is expected


@pytest.mark.parametrize(
    ("failures", "workers", "successes", "threshold", "expected"),
    [
        (20, 5, 0, 20, True),
        (19, 5, 0, 20, False),
        (20, 4, 0, 20, False),
        (20, 5, 2, 20, True),  # 2 of 22 is 9 %
        (18, 5, 2, 18, False),  # 2 of 20 is 10 %
        (20, 5, 0, 0, False),
    ],
)
def test_a_breaker_needs_many_failures_on_many_workers(
    failures: int, workers: int, successes: int, threshold: int, expected: bool
) -> None:
    assert trips(Record(1, 1, "a", failures, workers, successes), threshold) is expected


def test_tasks_without_a_type_are_never_held_together() -> None:
    assert not trips(Record(1, 1, "", 1000, 50, 0), 20)
