"""Readiness in bounded time, also while the database hangs."""

import threading

import pytest

from dispatch.services import health


def test_a_database_that_hangs_is_missing_soon_and_holds_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, asked = threading.Event(), []

    def hang() -> None:
        asked.append(threading.current_thread())
        answered.wait(30)

    monkeypatch.setattr(health, "missing_part", hang)
    assert [health.missing_part_soon(0.05) for _ in range(3)] == ["database"] * 3
    assert len(asked) == 1
    answered.set()
    asked[0].join(30)
    monkeypatch.setattr(health, "missing_part", lambda: "dispatcher")
    assert health.missing_part_soon(30) == "dispatcher"
    monkeypatch.setattr(health, "missing_part", lambda: None)
    assert health.missing_part_soon(30) is None
