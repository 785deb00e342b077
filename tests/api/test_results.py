"""`GET /tasks/{id}?wait_s=` in the hot plane: it waits without a thread, Django answers."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dispatch import events
from dispatch.hot.asgi import HotPlane
from dispatch.services import access, cancel, policy
from dispatch.store import db
from tests.api.conftest import World
from tests.api.planes import HotDoor, exchange

pytestmark = pytest.mark.django_db(transaction=True)
SYSTEM = access.system("test")


@pytest.fixture
def hot(transactional_db: None) -> Iterator[World]:
    """The hot plane with its listener; what goes on to Django is noted instead."""
    policy.create(SYSTEM, "tenant", "sales", {})
    policy.create(SYSTEM, "tenant", "other", {})
    policy.create(SYSTEM, "class", "background", {})
    door = HotDoor(listens=True)
    world = World(door)
    door.key = world.key()
    yield world
    door.close()


class Looking:
    """Calls that look at tasks, and when each of them went on to Django."""

    def __init__(self, world: World) -> None:
        assert isinstance(world.door, HotDoor)
        self.door = world.door
        self.leave = asyncio.Event()
        self.passed: list[tuple[str, bytes, float]] = []
        self.plane = HotPlane(self._django, self.door.engine)

    async def _django(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert (message["type"], message["body"], message["more_body"]) == ("http.request", b"", False)
        self.passed.append((scope["path"], scope["query_string"], time.monotonic()))
        await send({"type": "noted"})
        if self.leave.is_set():
            assert (await receive())["type"] == "http.disconnect"

    def at(self, path: str, key: str | None = None) -> Any:
        """Begin one call."""
        headers = {"authorization": f"Bearer {key or self.door.key}"}
        sending = exchange(self.plane, "GET", path, b"", headers, self.leave)
        return asyncio.run_coroutine_threadsafe(sending, self.door.loop)


def until(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_many_look_in_few_threads_and_hear_of_the_end(hot: World) -> None:
    looking, before = Looking(hot), threading.active_count()
    tasks = [hot.task(key=f"k{n}") for n in range(60)]
    calls = [looking.at(f"/api/v1/tasks/{task}?wait_s=30") for task in tasks]
    until(lambda: len(looking.door.engine.ends.waited()) == 60)
    time.sleep(0.05)
    assert looking.passed == []
    assert threading.active_count() <= before + 3
    for task in tasks[:30]:
        cancel.cancel(SYSTEM, task)
    for call in calls[:30]:
        call.result(10)
    assert {path for path, _, _ in looking.passed} == {f"/api/v1/tasks/{task}" for task in tasks[:30]}
    assert {query for _, query, _ in looking.passed} == {b""}, "it does not wait again there"
    looking.door.loop.call_soon_threadsafe(looking.door.engine.ends.close)
    for call in calls[30:]:
        call.result(10)
    assert len(looking.passed) == 60, "the server stops: whoever waits is answered as things stand"


def test_a_lost_notification_costs_a_second(hot: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, task = Looking(hot), hot.task()
    call = looking.at(f"/api/v1/tasks/{task}?wait_s=30")
    until(lambda: looking.door.engine.ends.waited() == [task])
    real = db.hint
    monkeypatch.setattr(db, "hint", lambda channel, ids=(): None if channel == events.TASK else real(channel, ids))
    cancel.cancel(SYSTEM, task)
    call.result(10)
    assert looking.passed[0][0].endswith(str(task))


def test_the_end_of_the_wait_and_a_client_that_leaves(hot: World) -> None:
    looking, task = Looking(hot), hot.task()
    looking.at(f"/api/v1/tasks/{task}?wait_s=0.1").result(10)
    assert len(looking.passed) == 1
    call = looking.at(f"/api/v1/tasks/{task}?wait_s=30")
    until(lambda: looking.door.engine.ends.waited() == [task])
    looking.door.loop.call_soon_threadsafe(looking.leave.set)
    assert call.result(10) == []
    assert len(looking.passed) == 1


def test_what_cannot_be_waited_for_goes_on_at_once(hot: World) -> None:
    looking, task, done = Looking(hot), hot.task(), hot.task()
    cancel.cancel(SYSTEM, done)
    strangers = hot.key("read", tenant="other")
    began = time.monotonic()
    for path, key in (
        (f"/api/v1/tasks/{done}?wait_s=30", None),
        ("/api/v1/tasks/999999?wait_s=30", None),
        (f"/api/v1/tasks/{task}?wait_s=30", strangers),
        (f"/api/v1/tasks/{task}?wait_s=30", "ef_nobody_x"),
        (f"/api/v1/tasks/{task}?wait_s=61", None),
        (f"/api/v1/tasks/{task}?wait_s=nan", None),
        (f"/api/v1/tasks/{task}?wait_s=30&x=1", None),
        (f"/api/v1/tasks/{task}", None),
    ):
        looking.at(path, key).result(10)
    assert len(looking.passed) == 8
    assert time.monotonic() - began < 20
    assert [query for _, query, _ in looking.passed][4:] == [b"wait_s=61", b"wait_s=nan", b"wait_s=30&x=1", b""]
