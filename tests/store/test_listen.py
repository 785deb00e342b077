"""Listeners hear, drain, and come back after a lost connection."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from dispatch import events
from dispatch.store import db, seat
from dispatch.store.listen import AsyncListener, Listener, ids
from tests import fleet

pytestmark = pytest.mark.django_db(transaction=True)

LOSE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'evenflow %%'"
    " AND datname = current_database()"
)


@pytest.fixture
def listener() -> Iterator[Listener]:
    one = Listener(events.POOL, events.TASK)
    assert one.wait(5) == [], "connecting is no notification"
    yield one
    one.close()


def hear(listener: Listener) -> list[tuple[str, str]]:
    """Everything that arrives until a quarter of a second is silent."""
    heard: list[tuple[str, str]] = []
    while notes := listener.wait(0.25):
        heard += notes
    return heard


def test_notifications_arrive_with_their_channels(listener: Listener) -> None:
    db.hint(events.POOL, [3, 1, 3])
    db.hint(events.TASK, range(1, 502))
    db.hint(events.SESSION, [9])
    heard = hear(listener)
    assert heard[0] == (events.POOL, "1,3")
    assert [len(ids(payload)) for channel, payload in heard if channel == events.TASK] == [500, 1]
    assert {channel for channel, _ in heard} == {events.POOL, events.TASK}


def test_silence_is_empty_after_the_time(listener: Listener) -> None:
    started = time.monotonic()
    assert listener.wait(0.2) == []
    assert 0.15 < time.monotonic() - started < 2


def test_a_lost_connection_is_made_again(listener: Listener) -> None:
    fleet.sql(LOSE)
    assert listener.wait(0.5) == [], "lost"
    assert listener.wait(0.5) == [], "made again"
    db.hint(events.POOL, [7])
    assert hear(listener) == [(events.POOL, "7")]


def test_ids_come_out_of_payloads_and_nothing_else_does() -> None:
    assert ids("1,2,33") == [1, 2, 33]
    assert ids("") == ids("policy:class") == ids(",,") == []


def in_thread(work: Callable[[], object]) -> None:
    def run() -> None:
        work()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_an_event_loop_is_called_back_and_survives_loss_and_bad_callbacks() -> None:
    heard: list[str] = []
    connected: list[int] = []

    def note(payload: str) -> None:
        if payload == "1":
            raise ValueError("bad callback")
        heard.append(payload)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        listening = AsyncListener({events.SESSION: note}, connected=lambda: connected.append(1))
        task = asyncio.create_task(listening.run())
        await until(lambda: len(connected) == 1)
        await asyncio.to_thread(in_thread, lambda: (db.hint(events.SESSION, [1]), db.hint(events.SESSION, [2])))
        await until(lambda: heard == ["2"])
        await asyncio.to_thread(in_thread, lambda: fleet.sql(LOSE))
        await until(lambda: len(connected) == 2)
        await asyncio.to_thread(in_thread, lambda: db.hint(events.SESSION, [3]))
        await until(lambda: heard == ["2", "3"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_seat_has_one_holder_and_the_next_one_gets_it_when_the_backend_dies() -> None:
    one, two, other = (seat.Seat(seat.DISPATCH, number, "test") for number in (1, 1, 2))
    assert one.take()
    assert other.take(), "another pool's seat"
    assert not two.take()
    fleet.sql(f"SELECT pg_terminate_backend({one.backend_pid})")
    assert two.take()
    assert not one.alive()
    assert two.alive()
    two.leave()
    other.leave()
    assert one.take(), "a lost seat can be taken again"
    one.leave()
