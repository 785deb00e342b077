"""The hot plane alone: waiting without threads, waking, hanging up, batches, bounds, stopping."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.db import OperationalError, connection

from dispatch import events
from dispatch.api.connection import watched
from dispatch.errors import Conflict, Unavailable
from dispatch.hot import engine as engines
from dispatch.hot.asgi import HotPlane
from dispatch.hot.batcher import Batcher
from dispatch.models import Demand, Lease, Task
from dispatch.services import access, policy
from dispatch.store import db
from tests.api.conftest import World
from tests.api.planes import Door, HotDoor, Reply, exchange


@pytest.fixture
def hot(transactional_db: None) -> Iterator[World]:
    """The hot plane with its listener."""
    system = access.system("test")
    policy.create(system, "tenant", "sales", {})
    policy.create(system, "class", "background", {})
    door = HotDoor(listens=True)
    door.run(_started(door))
    world = World(door)
    door.key = world.key()
    yield world
    door.close()


async def _started(door: HotDoor) -> None:
    """Begin to listen, and wait until it does: a connection cut while it is made would warn."""
    door.engine.start()
    for _ in range(500):
        await asyncio.sleep(0.01)
        if await asyncio.to_thread(_listening):
            return


def _listening() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND state = 'idle'")
            return bool(cursor.fetchone()[0])
    finally:
        connection.close()


class Waiting:
    """A claim that is on its way in another thread."""

    def __init__(self, world: World, body: dict[str, Any]) -> None:
        self.leave = asyncio.Event()
        self._world = world
        door = world.door
        assert isinstance(door, HotDoor)
        headers = {"authorization": f"Bearer {door.key}", "content-type": "application/json"}
        sending = exchange(door.plane, "POST", "/api/v1/claims", json.dumps(body).encode(), headers, self.leave)
        self.door = door
        self.future = asyncio.run_coroutine_threadsafe(sending, door.loop)

    def parked(self, count: int = 1) -> "Waiting":
        """Wait until its demand is seen."""
        wait_for(lambda: Demand.objects.count() == count)
        return self

    def hang_up(self) -> None:
        """The client goes away."""
        self.door.loop.call_soon_threadsafe(self.leave.set)

    def answer(self, timeout: float = 10) -> Reply:
        """What came back."""
        start, body = self.future.result(timeout)
        return Reply(start["status"], {}, json.loads(body["body"]))


def wait_for(condition: Any, patience: float = 10) -> None:
    """Until it holds."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@pytest.mark.django_db(transaction=True)
class TestWaiting:
    """Parked claims."""

    def test_a_notification_wakes_the_claim(self, hot: World) -> None:
        session = hot.session()
        waiting = Waiting(hot, {"session_id": session, "max": 1, "wait_s": 30}).parked()
        hot.offer(hot.task(), session)
        began = time.monotonic()
        db.hint(events.SESSION, [session])
        assert len(waiting.answer().data["leases"]) == 1
        assert time.monotonic() - began < 0.9, "sooner than the poll"
        assert Demand.objects.count() == 0

    def test_a_lost_notification_costs_a_second(self, hot: World) -> None:
        session = hot.session()
        waiting = Waiting(hot, {"session_id": session, "max": 1, "wait_s": 30}).parked()
        hot.offer(hot.task(), session)
        assert len(waiting.answer(5).data["leases"]) == 1

    def test_the_end_of_the_wait_takes_the_demand_back(self, hot: World) -> None:
        waiting = Waiting(hot, {"session_id": hot.session(), "max": 1, "wait_s": 0.5}).parked()
        assert waiting.answer().data["idle_reason"] == "no_work"
        wait_for(lambda: Demand.objects.count() == 0)

    def test_hanging_up_takes_the_demand_back_and_gets_nothing(self, hot: World) -> None:
        session = hot.session()
        waiting = Waiting(hot, {"session_id": session, "max": 1, "wait_s": 30}).parked()
        waiting.hang_up()
        assert waiting.future.result(5) == []
        wait_for(lambda: Demand.objects.count() == 0)
        hot.offer(hot.task(), session)
        db.hint(events.SESSION, [session])
        time.sleep(0.3)
        assert Lease.objects.get().delivered_at is None

    def test_leases_delivered_to_nobody_go_back_uncounted(self, hot: World, monkeypatch: pytest.MonkeyPatch) -> None:
        session = hot.session()
        task_id = hot.task()
        inside, go_on = threading.Event(), threading.Event()
        real = engines.claim.claim_many

        def slow(requests: Any) -> Any:
            answers = real(requests)
            if any(getattr(answer, "leases", None) for answer in answers):
                inside.set()
                go_on.wait(5)
            return answers

        hot.door.engine.claim._run = slow  # type: ignore[attr-defined]
        hot.offer(task_id, session)
        waiting = Waiting(hot, {"session_id": session, "max": 1, "wait_s": 30, "claim_id": "x"})
        assert inside.wait(5)
        waiting.hang_up()
        time.sleep(0.1)
        go_on.set()
        assert waiting.future.result(5) == []
        wait_for(lambda: not Lease.objects.exists())
        task = Task.objects.get()
        assert (task.state, task.attempts) == (1, 0)

    def test_many_claims_wait_in_few_threads(self, hot: World) -> None:
        count, before = 500, threading.active_count()
        hot.session()
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO worker_session (worker_id, pool_id, capset_id, api_key_id, slots, labels)"
                " SELECT worker_id, pool_id, capset_id, api_key_id, 1, '{}' FROM worker_session, generate_series(1, %s)"
                " RETURNING id",
                [count],
            )
            sessions = [row[0] for row in cursor.fetchall()]
        claims = [Waiting(hot, {"session_id": session, "max": 1, "wait_s": 60}) for session in sessions]
        claims[-1].parked(count)
        assert threading.active_count() <= before + 8
        task = {"tenant": "sales", "class": "background", "payload": 1}
        made = hot.door.post("/tasks", {"tasks": [task] * count}).data["tasks"]
        granted = {
            "task_ids": [one["id"] for one in made],
            "session_ids": sessions,
            "charges": [1] * count,
            "tiers": ["W"] * count,
            "pool_id": Task.objects.all()[0].pool_id,
            "offer_ttl_s": 30.0,
            "channel": events.SESSION,
            "payloads": db.payloads(sessions),
        }
        assert db.tuples("grant_leases", granted)[0][0] is True
        tokens = {claim.answer(30).data["leases"][0]["token"] for claim in claims}
        assert len(tokens) == count

    def test_stopping_answers_everybody(self, hot: World) -> None:
        waiting = Waiting(hot, {"session_id": hot.session(), "max": 1, "wait_s": 60}).parked()
        assert isinstance(hot.door, HotDoor)
        began = time.monotonic()
        hot.door.run(_lifespan(hot.door.plane))
        assert waiting.answer(1).data["leases"] == []
        assert time.monotonic() - began < 5
        assert Demand.objects.count() == 0

    def test_a_cancelled_call_is_told_to_come_again(self, hot: World) -> None:
        waiting = Waiting(hot, {"session_id": hot.session(), "max": 1, "wait_s": 60}).parked()
        assert isinstance(hot.door, HotDoor)

        async def stop() -> None:
            for task in asyncio.all_tasks():
                if "exchange" in repr(task.get_coro()):
                    task.cancel()

        hot.door.run(stop())
        reply = waiting.answer(5)
        assert (reply.status, reply.data["type"]) == (503, "unavailable")
        wait_for(lambda: Demand.objects.count() == 0)


async def _lifespan(plane: HotPlane) -> None:
    inbox = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return inbox.pop()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await plane({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


class TestBatches:
    """Natural batching, without a database."""

    @pytest.fixture(autouse=True)
    def _no_database(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dispatch.hot.batcher.connection", _NoConnection())

    def test_what_arrives_during_a_call_is_the_next_call(self) -> None:
        sizes: list[int] = []

        def run(items: list[int]) -> list[int]:
            sizes.append(len(items))
            time.sleep(0.05)
            return [item * 2 for item in items]

        async def main() -> list[int]:
            batcher: Batcher[int, int] = Batcher("test", run, most=8)
            first = asyncio.gather(*(batcher(n) for n in range(2)))
            await asyncio.sleep(0.01)
            rest = asyncio.gather(*(batcher(n) for n in range(2, 14)))
            found = [*await first, *await rest]
            await asyncio.to_thread(batcher.close)
            return found

        assert asyncio.run(main()) == [n * 2 for n in range(14)]
        assert sizes == [2, 8, 4]

    def test_past_the_bound_is_unavailable_at_once(self) -> None:
        async def main() -> Unavailable:
            batcher: Batcher[int, int] = Batcher("test", lambda items: (time.sleep(0.1), items)[1], bound=3)
            running = [asyncio.ensure_future(batcher(n)) for n in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(Unavailable) as refused:
                await batcher(4)
            await asyncio.gather(*running)
            await asyncio.to_thread(batcher.close)
            return refused.value

        assert asyncio.run(main()).retry_after_s == 1

    def test_one_bad_item_fails_alone(self) -> None:
        def run(items: list[int]) -> list[int | Exception]:
            if 3 in items:
                raise ValueError("3 is bad")
            return [Conflict() if item == 4 else item for item in items]

        async def main() -> list[Any]:
            batcher: Batcher[int, int] = Batcher("test", run)
            found = await asyncio.gather(*(batcher(n) for n in range(6)), return_exceptions=True)
            await asyncio.to_thread(batcher.close)
            return list(found)

        found = asyncio.run(main())
        assert [item for item in found if isinstance(item, int)] == [0, 1, 2, 5]
        assert isinstance(found[3], ValueError)
        assert isinstance(found[4], Conflict)

    @pytest.mark.parametrize(("state", "tries"), [("40P01", 2), ("40001", 2), ("08006", 1)])
    def test_only_what_was_rolled_back_is_repeated(self, state: str, tries: int) -> None:
        calls = 0

        def run(items: list[int]) -> list[int]:
            nonlocal calls
            calls += 1
            if calls == 1:
                cause = Exception()
                cause.sqlstate = state  # type: ignore[attr-defined]
                raise OperationalError("first") from cause
            return items

        async def main() -> Any:
            batcher: Batcher[int, int] = Batcher("test", run)
            found = await asyncio.gather(batcher(1), return_exceptions=True)
            await asyncio.to_thread(batcher.close)
            return found[0]

        found = asyncio.run(main())
        assert calls == tries
        assert found == 1 if tries == 2 else isinstance(found, OperationalError)


class _NoConnection:
    connection = None

    def close(self) -> None:
        """Nothing is open."""


def test_what_is_not_an_agents_verb_passes() -> None:
    passed: list[str] = []

    async def fallback(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope.get("path", scope["type"]))

    async def main() -> None:
        plane = HotPlane(fallback, engines.Engine(listens=False))
        for method, path in (
            ("GET", "/"),
            ("GET", "/api/v1/tasks"),
            ("POST", "/api/v1/tasks/1/cancel"),
            ("POST", "/api/v1/claims/"),
            ("PUT", "/api/v1/claims"),
        ):
            await exchange(plane, method, path, b"", {})
        await plane({"type": "websocket", "path": "/ws/live"}, None, None)  # type: ignore[arg-type]

    asyncio.run(main())
    assert passed == ["/", "/api/v1/tasks", "/api/v1/tasks/1/cancel", "/api/v1/claims/", "/api/v1/claims", "/ws/live"]


@pytest.mark.django_db(transaction=True)
def test_without_the_hot_plane_a_client_that_hangs_up_keeps_nothing(transactional_db: None) -> None:
    system = access.system("test")
    policy.create(system, "tenant", "sales", {})
    policy.create(system, "class", "background", {})
    world = World(Door())
    world.door.key = world.key()
    session = world.session()
    app = watched(get_asgi_application())
    body = json.dumps({"session_id": session, "max": 1, "wait_s": 30}).encode()
    headers = {"authorization": f"Bearer {world.door.key}", "content-type": "application/json", "host": "localhost"}

    async def hang_up_while_waiting() -> list[Any]:
        leave = asyncio.Event()
        asking = asyncio.ensure_future(exchange(app, "POST", "/api/v1/claims", body, headers, leave))
        await asyncio.to_thread(wait_for, _parked)
        leave.set()
        return await asyncio.wait_for(asking, 5)

    asyncio.run(hang_up_while_waiting())
    wait_for(lambda: Demand.objects.count() == 0)
    world.offer(world.task(), session)
    time.sleep(0.6)
    assert Lease.objects.get().delivered_at is None


def _parked() -> bool:
    try:
        return Demand.objects.count() == 1
    finally:
        connection.close()
