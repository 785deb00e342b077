"""Sessions, several jobs at a time, loops, asyncio, goodbye."""

import asyncio
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dispatch.agent
from dispatch.agent import AgentError, ApiError, Client, Interrupted, LeaseLost
from tests.agent.server import KEY, ControlPlane

ROOT = Path(dispatch.agent.__file__).parents[2]


def test_the_session_is_opened_by_the_first_claim(plane: ControlPlane, client: Client) -> None:
    assert plane.made("/workers") == []
    for _ in range(2):
        with client.claim(wait_s=0):
            pass
    (call,) = plane.made("/workers")
    assert call.body == {"name": "w1", "capabilities": ["code"], "slots": 2}


def test_claiming_needs_a_name(plane: ControlPlane) -> None:
    with Client(plane.url, KEY) as nameless, pytest.raises(AgentError, match="needs a name"), nameless.claim():
        pass


def test_an_ended_session_is_opened_anew(plane: ControlPlane, client: Client) -> None:
    with client.claim(wait_s=0):
        pass
    plane.sessions.clear()
    plane.add(7)
    with client.claim() as job:
        assert job is not None
    assert len(plane.made("/workers")) == 2
    assert [verb for verb, _ in plane.ends()] == ["complete"]


def test_a_server_that_knows_no_session_is_not_asked_for_ever(plane: ControlPlane, client: Client) -> None:
    plane.fault("/claims", 404, times=10)
    with pytest.raises(ApiError, match="404"):
        client.claim_many()
    assert len(plane.made("/claims")) == len(plane.made("/workers")) == 2


def test_the_loop_goes_on_after_rate_limits(plane: ControlPlane) -> None:
    with Client(plane.url, KEY, name="w1", retry_for_s=0, sigterm=False) as client:
        plane.fault("/claims", 429, times=1)
        plane.add(7)
        with next(client.jobs(wait_s=0.1)):
            pass
    assert len(plane.made("/claims")) == 2


def test_the_leases_of_an_ended_session_are_lost(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with pytest.raises(LeaseLost), client.claim() as job:
        assert job is not None
        plane.sessions.clear()
        assert job.lost.wait(5)
    assert plane.ends() == []


def test_one_heartbeat_call_carries_all_leases(plane: ControlPlane, client: Client) -> None:
    for number in range(2):
        plane.add(number)
    jobs = client.claim_many(max=2)
    assert len(jobs) == 2
    plane.until(lambda: len(plane.made("/heartbeats")) >= 3)
    for call in plane.made("/heartbeats"):
        assert {lease["task_id"] for lease in call.body["leases"]} == {0, 1}
    for job in jobs:
        job.complete()


def test_one_lost_lease_leaves_the_others_alone(plane: ControlPlane, client: Client) -> None:
    for number in range(2):
        plane.add(number)
    first, second = client.claim_many(max=2)
    plane.lose(0)
    assert first.lost.wait(5)
    time.sleep(plane.ttl_s)
    assert not second.lost
    second.complete("fine")
    assert plane.ends()[0][1]["result"] == "fine"


def test_heartbeats_stop_when_nothing_is_in_hand(plane: ControlPlane, client: Client) -> None:
    plane.add(7)
    with client.claim():
        pass
    seen = len(plane.made("/heartbeats"))
    time.sleep(plane.ttl_s)
    assert len(plane.made("/heartbeats")) == seen
    assert not any(thread.name == "evenflow-heartbeats" for thread in threading.enumerate())


def test_a_slower_beat_named_by_the_server_is_followed_up_to_half_the_ttl() -> None:
    with ControlPlane(ttl_s=2.0, beat_s=0.1) as plane, Client(plane.url, KEY, name="w1", sigterm=False) as client:
        plane.add(7)
        with client.claim():
            plane.until(lambda: plane.made("/heartbeats"))
            plane.beat_s = 60.0
            plane.until(lambda: len(plane.made("/heartbeats")) >= 4, 6)
        first, *_, before, last = plane.made("/heartbeats")
        assert first.at < before.at
        assert 0.7 <= last.at - before.at <= 1.1


def test_many_threads_share_one_client(plane: ControlPlane) -> None:
    with Client(plane.url, KEY, name="w1", slots=8, sigterm=False) as client:
        for number in range(200):
            plane.add(number)
        stop, done = threading.Event(), []

        def work() -> None:
            for job in client.jobs(stop, wait_s=0.2):
                with job:
                    job.progress(step=1)
                    done.append(job.task_id)
                    if len(done) == 200:
                        stop.set()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert sorted(done) == list(range(200))
    assert sorted(body["task_id"] for _, body in plane.ends()) == list(range(200))
    assert len(plane.made("/workers")) == 1


def test_the_loop_survives_an_outage(plane: ControlPlane) -> None:
    with Client(plane.url, KEY, name="w1", retry_for_s=0.1, sigterm=False) as client:
        plane.fault("/claims", "reset", times=6)
        plane.add(7)
        stop = threading.Event()
        for job in client.jobs(stop, wait_s=0.1):
            with job:
                stop.set()
    assert [verb for verb, _ in plane.ends()] == ["complete"]


def test_the_loop_ends_when_the_key_is_refused(plane: ControlPlane) -> None:
    with Client(plane.url, "ef_wrong", name="w1", sigterm=False) as client, pytest.raises(ApiError) as caught:
        next(client.jobs())
    assert caught.value.status == 401


def test_close_ends_a_parked_claim_and_says_goodbye(plane: ControlPlane) -> None:
    client = Client(plane.url, KEY, name="w1", sigterm=False)
    failures: list[Exception] = []

    def park() -> None:
        try:
            client.claim_many(wait_s=30)
        except Interrupted as error:
            failures.append(error)

    thread = threading.Thread(target=park)
    thread.start()
    plane.until(lambda: plane.made("/claims"))
    client.stop_claiming()
    thread.join(3)
    client.close()
    assert not thread.is_alive()
    assert len(failures) == 1
    assert plane.sessions == set()
    assert plane.made("/claims")[-1].body["wait_s"] == 0, "an answer under way is fetched and handed back"


def test_goodbye_makes_open_jobs_lost(plane: ControlPlane) -> None:
    client = Client(plane.url, KEY, name="w1", sigterm=False)
    plane.add(7)
    (job,) = client.claim_many()
    client.close()
    with pytest.raises(LeaseLost):
        job.complete()


def test_submit_many_answers_in_order_and_in_batches(plane: ControlPlane, client: Client) -> None:
    tasks = [{"tenant": "sales", "class": "interactive", "payload": n} for n in range(1500)]
    answers = client.submit_many(iter(tasks))
    assert [len(call.body["tasks"]) for call in plane.made("/tasks")] == [1000, 500]
    assert len({call.key for call in plane.made("/tasks")}) == 2
    assert len({answer.id for answer in answers}) == 1500


def test_only_given_fields_are_sent(plane: ControlPlane, client: Client) -> None:
    moment = datetime(2030, 1, 2, tzinfo=UTC)
    client.submit(tenant="sales", class_="interactive", payload=[1], run_at=moment, tools=["crm"])
    assert plane.made("/tasks")[0].body == {
        "tenant": "sales",
        "class": "interactive",
        "payload": [1],
        "run_at": "2030-01-02T00:00:00+00:00",
        "tools": ["crm"],
    }


def test_a_time_without_a_zone_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="time zone"):
        client.submit(tenant="sales", class_="interactive", run_at=datetime(2030, 1, 2))


def test_asyncio_the_loop_goes_on_while_the_claim_waits(plane: ControlPlane, client: Client) -> None:
    async def agent() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.create_task(tick())
        asyncio.get_running_loop().call_later(0.2, plane.add, 7)
        async with client.aclaim(wait_s=5) as job:
            assert job is not None
            job.result = "async"
        ticker.cancel()
        return ticks

    assert asyncio.run(agent()) >= 10
    assert plane.ends()[0][1]["result"] == "async"


def test_asyncio_cancelled_work_is_released(plane: ControlPlane, client: Client) -> None:
    plane.add(7)

    async def agent() -> None:
        async with client.aclaim() as job:
            assert job is not None
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(agent())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [verb for verb, _ in plane.ends()] == ["release"]


def test_asyncio_a_cancelled_claim_hands_back_what_still_arrives(plane: ControlPlane, client: Client) -> None:
    async def claim() -> None:
        async with client.aclaim(wait_s=2):
            raise AssertionError("cancelled before anything came")

    async def main() -> None:
        task = asyncio.create_task(claim())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        plane.add(7)

    asyncio.run(main())
    plane.until(lambda: plane.ends())
    assert [verb for verb, _ in plane.ends()] == ["release"]


def test_importable_without_anything_installed() -> None:
    code = "import sys, dispatch.agent; print([name for name in sys.modules if 'django' in name or 'psycopg' in name])"
    run = subprocess.run(
        [sys.executable, "-S", "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
