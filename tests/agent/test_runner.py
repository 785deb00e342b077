"""The runner in this process, and whole agent processes that are told to end."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dispatch.agent
from dispatch.agent import ApiError, Client, Job, Runner
from tests.agent.server import KEY, ControlPlane

ROOT = Path(dispatch.agent.__file__).parents[2]


def run_until(runner: Runner, plane: ControlPlane, true: Callable[[], bool]) -> None:
    thread = threading.Thread(target=runner.run)
    thread.start()
    plane.until(true)
    runner.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_handlers_by_type_and_their_results(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=0.2)

    @runner.task("add")
    def add(job: Job) -> int:
        return int(sum(job.payload))

    @runner.task("*")
    def other(job: Job) -> str:
        return job.type

    plane.add(1, "add", [1, 2])
    plane.add(2, "else")
    run_until(runner, plane, lambda: len(plane.ends()) == 2)
    assert {body["task_id"]: body["result"] for _, body in plane.ends()} == {1: 3, 2: "else"}
    assert plane.sessions == set(), "run() says goodbye"


def test_a_failing_handler_fails_its_task_only(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=0.2)

    @runner.task("work")
    def work(job: Job) -> None:
        if job.task_id == 1:
            raise RuntimeError("no")

    for number in range(6):
        plane.add(number)
    run_until(runner, plane, lambda: len(plane.ends()) == 6)
    assert {body["task_id"]: verb for verb, body in plane.ends()} == dict.fromkeys(range(6), "complete") | {1: "fail"}


def test_a_type_without_handler_is_failed_in_words(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=0.2)
    plane.add(1, "unheard-of")
    run_until(runner, plane, lambda: bool(plane.ends()))
    assert plane.ends()[0][0] == "fail"
    assert "no handler for tasks of type 'unheard-of'" in plane.ends()[0][1]["error"]["message"]


def test_slots_run_side_by_side(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=0.2)
    together = threading.Barrier(2)

    @runner.task("work")
    def work(job: Job) -> None:
        together.wait(5)

    plane.add(1)
    plane.add(2)
    run_until(runner, plane, lambda: len(plane.ends()) == 2)
    assert [verb for verb, _ in plane.ends()] == ["complete", "complete"]


def test_stop_waits_for_a_running_handler(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=20)

    running = threading.Event()

    @runner.task("work")
    def work(job: Job) -> str:
        running.set()
        return "told" if job.stop.wait(5) else "not told"

    plane.add(1)
    run_until(runner, plane, running.is_set)
    assert plane.ends()[0][1]["result"] == "told"


def test_check_hands_back_when_the_agent_stops(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=20)
    running = threading.Event()

    @runner.task("work")
    def work(job: Job) -> None:
        running.set()
        job.stop.wait(5)
        job.check()

    plane.add(1)
    run_until(runner, plane, running.is_set)
    assert plane.ends() == [("release", {"task_id": 1, "token": 2, "reason": "shutdown"})]


def test_what_outlives_the_grace_is_released(plane: ControlPlane, client: Client) -> None:
    runner = Runner(client, wait_s=20, grace_s=0.2)
    running, finished = threading.Event(), threading.Event()

    @runner.task("work")
    def work(job: Job) -> None:
        running.set()
        finished.wait(5)

    plane.add(1)
    run_until(runner, plane, running.is_set)
    assert [verb for verb, _ in plane.ends()] == ["release"]
    finished.set()


def test_one_type_has_one_handler(client: Client) -> None:
    runner = Runner(client)
    runner.task("x")(repr)
    with pytest.raises(ValueError, match="has a handler"):
        runner.task("x")


def test_a_refused_key_ends_the_run(plane: ControlPlane) -> None:
    with Client(plane.url, "ef_wrong", name="w1", slots=2, sigterm=False) as client, pytest.raises(ApiError):
        Runner(client).run()


BLOCK = """
    with client.claim() as job:
        print("claimed", flush=True)
        time.sleep(60)
"""
RUNNER = """
    runner = Runner(client, grace_s=0.2)
    @runner.task("work")
    def work(job):
        print("claimed", flush=True)
        time.sleep(60)
    runner.run()
"""


def agent_process(plane: ControlPlane, body: str) -> subprocess.Popen[str]:
    head = (
        f"import time\nfrom dispatch.agent import Client, Runner\nclient = Client({plane.url!r}, {KEY!r}, name='w1')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(body)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("program", [BLOCK, RUNNER], ids=["block", "runner"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_releases_the_task_in_hand(plane: ControlPlane, program: str, number: signal.Signals) -> None:
    plane.add(7)
    process = agent_process(plane, program)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        began = time.monotonic()
        process.send_signal(number)
        process.wait(5)
        assert time.monotonic() - began < 4
    finally:
        process.kill()
        process.communicate()
    assert [verb for verb, _ in plane.ends()] == ["release"]


def test_an_idle_runner_ends_at_once_and_says_goodbye(plane: ControlPlane) -> None:
    process = agent_process(plane, RUNNER)
    try:
        plane.until(lambda: plane.made("/claims"))
        began = time.monotonic()
        process.terminate()
        assert process.wait(5) == 0
        assert time.monotonic() - began < 2
    finally:
        process.kill()
        process.communicate()
    assert plane.sessions == set()
