"""`evenflow work --exec` as a real process: process groups ended, hand-backs, outages, bad starts."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.console import Console, problem
from tests.agent.work.worker import FAMILY, STUBBORN, alive, pid

# Ends from outside


def test_a_lost_lease_kills_the_whole_process_group(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    worker = work(FAMILY)
    family = [pid(tmp_path / name, console) for name in ("grandchild", "child")]
    assert all(alive(member) for member in family)
    console.lose(7)
    console.until(lambda: not any(alive(member) for member in family), 5)
    assert console.ends() == []
    console.add(8)  # and the slot goes on
    console.until(lambda: 8 in console.leases, 5)
    assert "task 7: lost" in worker.stop()[2]


def test_who_ignores_term_is_killed_after_the_grace(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    work(STUBBORN)
    child = pid(tmp_path / "child", console)
    began = time.monotonic()
    console.lose(7)
    console.until(lambda: not alive(child), 5)
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("directive", ["cancel", "yield"])
def test_a_directive_ends_the_child_and_hands_the_task_back(
    console: Console, work: Any, tmp_path: Path, directive: str
) -> None:
    console.add(7)
    work("sh -c 'trap \"echo ::checkpoint 5; exit 0\" TERM; echo $$ > {folder}/child; while :; do sleep 0.05; done'")
    child = pid(tmp_path / "child", console)
    console.directives[7] = directive
    console.until(console.ends, 5)
    verb, body = console.ends()[0]
    assert (verb, body["reason"]) == ("release", directive)
    assert console.checkpoints == [5]  # its last words counted
    assert not alive(child)


def test_sigterm_ends_the_children_and_releases_their_tasks(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    worker = work(FAMILY)
    family = [pid(tmp_path / name, console) for name in ("grandchild", "child")]
    code, _, said = worker.stop()
    assert code == 0, said
    assert [verb for verb, _ in console.ends()] == ["release"]
    assert not any(alive(member) for member in family)
    assert console.made("/heartbeats")[-1].at <= console.calls[-1].at
    assert console.calls[-1].method == "DELETE"  # an orderly goodbye


def test_a_second_signal_does_not_wait_for_the_grace(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    worker = work(STUBBORN, "--grace", "60")
    child = pid(tmp_path / "child", console)
    worker.process.send_signal(signal.SIGHUP)  # a closed terminal
    time.sleep(0.5)
    assert alive(child)
    began = time.monotonic()
    assert worker.stop(signal.SIGTERM)[0] == 0
    assert time.monotonic() - began < 5
    assert not alive(child)
    assert [verb for verb, _ in console.ends()] == ["release"]


def test_a_killed_wrapper_leaves_no_child_behind(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    worker = work(FAMILY)
    family = [pid(tmp_path / name, console) for name in ("grandchild", "child")]
    worker.process.kill()
    console.until(lambda: not any(alive(member) for member in family), 5)


def test_what_a_finished_child_leaves_running_is_ended(console: Console, work: Any, tmp_path: Path) -> None:
    console.add(7)
    work("sh -c 'sleep 300 & echo $! > {folder}/grandchild; exit 0'").ended()
    left = pid(tmp_path / "grandchild", console)
    console.until(lambda: not alive(left), 5)


def test_an_outage_at_the_end_does_not_lose_the_result(console: Console, work: Any) -> None:
    console.fault("/complete", 503, times=3)
    console.add(7)
    verb, body = work("sh -c 'echo ::result 5'", "--retry-for", "0.2").ended()
    assert (verb, body["result"]) == ("complete", 5)


# Starting


def test_once_ends_after_one_task_with_its_verdict(console: Console, work: Any) -> None:
    for code in (0, 3):
        console.add(7 + code)
        worker = work(f"sh -c 'exit {code}'", "--once", "--slots", "4")
        worker.process.wait(timeout=15)
        assert worker.process.returncode == (1 if code else 0)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("no-such-program-here {task.json}", 66, "there is no program"),
        ("sh -c 'oops", 2, "cannot be read"),
        (" ", 2, "is empty"),
    ],
)
def test_a_command_that_cannot_run_claims_nothing(
    console: Console, work: Any, command: str, code: int, said: str
) -> None:
    worker = work(command)
    _, shown = worker.process.communicate(timeout=15)
    assert worker.process.returncode == code
    assert said in shown
    assert console.calls == []


def test_an_unreachable_server_is_named(console: Console, work: Any) -> None:
    worker = work("true", "--url", "http://127.0.0.1:9", "--retry-for", "0")
    _, shown = worker.process.communicate(timeout=15)
    assert worker.process.returncode == 69
    assert "http://127.0.0.1:9: nothing answers there" in shown


def test_a_refused_registration_ends_it(console: Console, work: Any) -> None:
    console.says["POST", "/workers"] = problem(403, "forbidden", "needs work")
    worker = work("true")
    _, shown = worker.process.communicate(timeout=15)
    assert worker.process.returncode == 77
    assert "needs work" in shown


def test_a_command_that_vanishes_hands_the_task_back_and_ends_the_worker(
    console: Console, work: Any, tmp_path: Path
) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    worker = work("{folder}/agent")
    console.until(lambda: console.made("/claims"), 10)
    program.unlink()
    console.add(7)
    worker.process.wait(timeout=15)
    assert [verb for verb, _ in console.ends()] == ["release"]
    assert worker.process.returncode == 66
