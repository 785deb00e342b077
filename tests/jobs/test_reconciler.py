"""The reconciler's loop: works alone, stands by, heals, and no step keeps the others from running."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dispatch.jobs import reconciler
from dispatch.services import system, upkeep
from dispatch.store import seat
from tests import fleet

pytestmark = pytest.mark.django_db(transaction=True)


def until(condition: Callable[[], Any]) -> None:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < 20, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def start() -> Iterator[Callable[[], Callable[[], None]]]:
    """Starts a reconciler in a thread; what it returns ends it."""
    fleet.world()
    ends: list[Callable[[], None]] = []

    def begin() -> Callable[[], None]:
        stop = threading.Event()
        thread = threading.Thread(target=reconciler.run, args=(stop,), daemon=True)
        thread.start()

        def end() -> None:
            stop.set()
            thread.join(20)
            assert not thread.is_alive()

        ends.append(end)
        return end

    yield begin
    for end in ends:
        end()


def lose_the_lease() -> int:
    one = fleet.held(f"w{time.monotonic_ns()}")
    fleet.sql("UPDATE lease SET expires_at = now()")
    return one.task


def working() -> int:
    return int(fleet.value("SELECT count(*) FROM process WHERE kind = 'reconciler' AND (info->>'working')::bool"))


def test_it_reclaims_folds_and_samples_every_second(start: Callable[[], Any]) -> None:
    start()
    task = lose_the_lease()
    until(lambda: fleet.state(task) == 1)
    until(lambda: fleet.value("SELECT count(*) FROM queue_sample") > 0)
    until(lambda: fleet.value("SELECT count(*) FROM lane_delta") == 0)
    until(lambda: working() == 1)
    fleet.invariants()


def test_the_second_one_stands_by_and_takes_over(start: Callable[[], Any]) -> None:
    end_first = start()
    until(lambda: working() == 1)
    start()
    until(lambda: fleet.value("SELECT count(*) FROM process WHERE kind = 'reconciler'") == 2)
    time.sleep(1.2)
    assert working() == 1
    end_first()
    task = lose_the_lease()
    until(lambda: fleet.state(task) == 1)


def test_it_survives_the_loss_of_every_connection(start: Callable[[], Any]) -> None:
    start()
    until(lambda: working() == 1)
    fleet.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'"
    )
    task = lose_the_lease()
    until(lambda: fleet.state(task) == 1)


def test_a_step_that_fails_keeps_no_other_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.world()
    task = lose_the_lease()

    def fail() -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(upkeep, "end_pauses", fail)
    assert reconciler.tick(reconciler.steps()) == 1
    assert fleet.state(task) == 1
    assert fleet.value("SELECT count(*) FROM queue_sample") > 0


def test_a_turn_ends_between_two_steps_when_it_has_to() -> None:
    done: list[str] = []
    plan = [reconciler.Step(name, 1.0, lambda name=name: done.append(name)) for name in "abc"]  # type: ignore[misc]
    assert reconciler.tick(plan, lambda: len(done) < 2) == 0
    assert done == ["a", "b"]
    reconciler.tick(plan)
    assert done == ["a", "b", "c"], "the rest follows with the next turn"


def test_steps_keep_their_own_pace() -> None:
    fleet.world()
    plan = reconciler.steps()
    reconciler.tick(plan)
    first = [step.due for step in plan]
    reconciler.tick(plan)
    assert [step.due for step in plan] == first, "nothing is due yet"


def test_a_holder_that_hangs_is_ended(start: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from dispatch.store import db

    body = db.statements()["depose_silent"]
    monkeypatch.setitem(db.statements(), "depose_silent", body.replace("10 seconds", "1 second"))
    hung = seat.Seat(seat.RECONCILE, 0, "hangs")
    assert hung.take()
    start()
    until(lambda: working() == 1)
    assert not hung.alive()


def test_it_tells_of_its_last_sweep_its_lag_and_its_invariants(start: Callable[[], Any]) -> None:
    plan = reconciler.steps()
    assert reconciler.watch(plan, False)["swept_s"] is None
    start()
    until(lambda: fleet.value("SELECT count(*) FROM process WHERE kind = 'reconciler' AND info->>'checked_s' <> ''"))
    (row,) = [row for row in system.system(fleet.ROOT)["processes"] if row["kind"] == "reconciler"]
    assert row["work"].startswith("swept ")
    assert row["work"].endswith("they hold")
    assert 0 <= row["info"]["swept_s"] < 5
    assert 0 <= row["info"]["lag_s"] < 5


def test_drift_that_should_be_impossible_is_told_with_an_alert() -> None:
    fleet.world()
    one = fleet.held()
    fleet.sql("UPDATE task SET state = 1 WHERE id = %s", one.task)
    plan = reconciler.steps()
    try:
        assert reconciler.tick(plan) == 0
        told = reconciler.watch(plan, True)
        assert told["broken"] == {"broken_leases": 1}
        assert fleet.sql("SELECT rule, subject, severity FROM alert") == [("invariant", "broken_leases", "critical")]
    finally:
        fleet.sql("UPDATE task SET state = 2 WHERE id = %s", one.task)
        upkeep.check_invariants()
        reconciler._broken.clear()
