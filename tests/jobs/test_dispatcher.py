"""The dispatcher's loop: leads, is woken by notifications, heals, and hands over."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from dispatch.jobs import dispatcher
from dispatch.services import leadership
from dispatch.store import db, dedicated, seat
from tests import fleet

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE_S = 20.0


def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> float:
    """Wait for the condition; how long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < patience_s, "it never came true"
        time.sleep(0.01)
    return time.monotonic() - started


class Running:
    """A dispatcher in a thread of its own."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.thread = threading.Thread(target=dispatcher.run, args=(self.stop,), daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.fixture
def start() -> Iterator[Callable[[], Running]]:
    fleet.world()
    running: list[Running] = []

    def begin() -> Running:
        running.append(Running())
        return running[-1]

    yield begin
    for one in running:
        one.end()


def leads(pool: str = "default") -> bool:
    return bool(
        fleet.value("SELECT coalesce(max(beat_at), '-infinity') > now() - interval '2 s' FROM pool_leader l"
                    " JOIN pool p ON p.id = l.pool_id WHERE p.slug = %s AND epoch > 0", pool)
    )  # fmt: skip


def leased() -> int:
    return int(fleet.value("SELECT count(*) FROM lease"))


def test_a_claim_and_a_submit_are_dispatched_at_once(start: Callable[[], Running]) -> None:
    start()
    until(leads)
    session = fleet.join(slots=3).session_id
    fleet.ask(session, wait_s=30)
    fleet.put()
    assert until(lambda: leased() == 1) < 0.9, "woken by the notification, not by the poll"
    time.sleep(0.2)
    fleet.put(2)
    assert until(lambda: leased() == 3) < 0.9


def test_a_lost_notification_costs_a_second_at_most(start: Callable[[], Running], monkeypatch: Any) -> None:
    start()
    until(leads)
    monkeypatch.setattr(db, "hint", lambda *_: None)
    fleet.ask(fleet.join().session_id, wait_s=30)
    fleet.put()
    until(lambda: leased() == 1, 5)


def test_new_pools_get_a_leader_while_it_runs(start: Callable[[], Running]) -> None:
    start()
    until(leads)
    fleet.policy.create(fleet.ROOT, "pool", "second", {})
    until(lambda: leads("second"))


def test_of_two_dispatchers_one_leads_and_the_other_takes_over(start: Callable[[], Running]) -> None:
    first = start()
    until(leads)
    epoch = fleet.value("SELECT epoch FROM pool_leader")
    start()
    time.sleep(0.8)
    assert fleet.value("SELECT epoch FROM pool_leader") == epoch
    first.end()
    until(lambda: fleet.value("SELECT epoch FROM pool_leader") > epoch)
    fleet.ask(fleet.join().session_id, wait_s=30)
    fleet.put()
    until(lambda: leased() == 1)


def test_it_survives_the_loss_of_every_connection(start: Callable[[], Running]) -> None:
    start()
    until(leads)
    epoch = fleet.value("SELECT epoch FROM pool_leader")
    fleet.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'"
    )
    until(lambda: fleet.value("SELECT epoch FROM pool_leader") > epoch)
    fleet.ask(fleet.join().session_id, wait_s=30)
    fleet.put()
    until(lambda: leased() == 1)


def test_a_leader_without_a_pulse_is_deposed() -> None:
    holder = seat.Seat(seat.DISPATCH, fleet.pool_id(), "hangs")
    assert holder.take()
    fleet.sql(
        "UPDATE pool_leader SET epoch = 5, backend_pid = %s, beat_at = now() - interval '2 s'", holder.backend_pid
    )
    heir = leadership.Leadership(fleet.pool_id())
    assert not heir.acquire(), "2 s are not yet too long"
    assert not heir.acquire()
    fleet.sql("UPDATE pool_leader SET beat_at = now() - interval '4 s'")
    until(heir.acquire)
    assert heir.epoch == 6
    assert not holder.alive()
    heir.release()


def test_a_leader_frozen_inside_a_cycle_keeps_nobody_waiting(start: Callable[[], Running]) -> None:
    """Its transaction holds the pool's row: without an end of that backend the heir could never raise the epoch."""
    holder = seat.Seat(seat.DISPATCH, fleet.pool_id(), "frozen")
    assert holder.take()
    fleet.sql(
        "UPDATE pool_leader SET epoch = 5, backend_pid = %s, beat_at = now() - interval '2 s'", holder.backend_pid
    )
    cycle = dedicated.connect("frozen cycle")
    cycle.execute("BEGIN")
    cycle.execute("UPDATE pool_leader SET cycle_no = cycle_no + 1, beat_at = now()")
    start()
    assert until(lambda: fleet.value("SELECT epoch FROM pool_leader") == 6) < 5
    with pytest.raises(dedicated.Error):
        cycle.execute("COMMIT")
    cycle.close()
    assert not holder.alive()


def test_threads_leave_no_connection_behind(start: Callable[[], Running]) -> None:
    one = start()
    until(leads)
    one.end()
    left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    until(lambda: fleet.value(left + " AND backend_type = 'client backend'") == 0)
    connection.close()
