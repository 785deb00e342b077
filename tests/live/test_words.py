"""Numbers are written as the console writes them."""

from datetime import UTC, datetime

import pytest

from dispatch.live import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-3, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 m 00 s"),
        (2472, "41 m 12 s"),
        (7500, "2 h 05 m"),
        (100_000, "1 d 03 h"),
    ],
)
def test_ages(seconds: float | None, text: str) -> None:
    assert words.age(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(30, "30 s"), (600, "10 m"), (5400, "1 h 30 m"), (86_400, "1 d")])
def test_limits_leave_out_idle_parts(seconds: float, text: str) -> None:
    assert words.limit(seconds) == text


def test_signs_are_true_minus_and_zero_has_none() -> None:
    assert [words.signed(value) for value in (36.6, -30.74, 0.0, -0.04, 0.04, None)] == [
        "+36.6",
        "−30.7",
        "0.0",
        "0.0",
        "0.0",
        "–",
    ]


@pytest.mark.parametrize(("value", "text"), [(3.0, "3"), (0.25, "0.25"), (0.001, "0.001"), (1000, "1000"), (0, "0")])
def test_weights_read_as_they_are_typed(value: float, text: str) -> None:
    assert words.weight(value) == text


def test_counts_and_shares() -> None:
    assert (words.count(1284), words.count(0), words.percent(0.4761), words.percent(None)) == (
        "1,284",
        "0",
        "47.6",
        "–",
    )
    assert (words.plural(1, "task"), words.plural(2, "task")) == ("1 task", "2 tasks")


def test_times_are_utc() -> None:
    noon = datetime(2026, 11, 30, 14, 32, 8, tzinfo=UTC)
    assert words.clock("2026-11-30T15:32:08+01:00") == "14:32:08"
    assert words.stamp(noon) == "Mon 30 Nov 2026, 14:32:08 UTC"
    assert words.millis(noon) == 1_796_049_128_000
    assert words.millis(None) is None
