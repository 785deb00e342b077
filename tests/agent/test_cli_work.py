"""`evenflow work --exec` as a real process: leases kept alive, process groups ended, exit codes, hand-backs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agent.console import Console, problem
from tests.agent.server import KEY

FAMILY = "sh -c 'sleep 300 & echo $! > {folder}/grandchild; echo $$ > {folder}/child; wait'"
STUBBORN = "sh -c 'trap : TERM; echo $$ > {folder}/child; while :; do sleep 0.05; done'"


class Worker:
    """A running `evenflow work`."""

    def __init__(self, console: Console, home: Path, command: str, *more: str) -> None:
        self.console = console
        env = {**os.environ, "EVENFLOW_URL": console.url, "EVENFLOW_KEY": KEY, "XDG_CONFIG_HOME": str(home)}
        words = ["work", "--exec", command, "--name", "w1", "--grace", "0.5", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dispatch.agent.cli", *words],
            env={**env, "TMPDIR": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> tuple[str, dict[str, Any]]:
        """The first end the server heard."""
        self.console.until(self.console.ends, 10)
        return self.console.ends()[0]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        text, said = self.process.communicate(timeout=15)
        return self.process.returncode, text, said


@pytest.fixture
def console() -> Iterator[Console]:
    with Console() as running:
        yield running


@pytest.fixture
def work(console: Console, tmp_path: Path) -> Iterator[Any]:
    started: list[Worker] = []

    def start(command: str, *more: str) -> Worker:
        started.append(Worker(console, tmp_path, command.replace("{folder}", str(tmp_path)), *more))
        return started[-1]

    yield start
    for worker in started:
        worker.stop(signal.SIGKILL)


def pid(path: Path, console: Console) -> int:
    """The pid that a child wrote down."""
    console.until(lambda: path.exists() and path.read_text().strip(), 10)
    return int(path.read_text())


def alive(number: int) -> bool:
    """Whether it runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def python(code: str) -> str:
    return f'{sys.executable} -c "{code}" {{task.json}} {{result.json}} {{progress.json}}'


# The task and its result


def test_the_command_gets_the_task_and_its_result_line_completes_it(
    console: Console, work: Any, tmp_path: Path
) -> None:
    code = (
        "import json, os, sys; task = json.load(open(sys.argv[1])); "
        "env = {name: os.environ.get(name) for name in ('EVENFLOW_TASK_ID', 'EVENFLOW_TASK_TYPE', 'EVENFLOW_KEY')}; "
        "print('::result ' + json.dumps([task, env, sys.stdin.read()]))"
    )
    console.add(7, "index_text", {"folder": "/x; rm -rf"}, checkpoint={"at": 3}, journal=["a"], priority=2)
    work(python(code))
    console.until(console.ends, 10)
    verb, body = console.ends()[0]
    task, env, stdin = body["result"]
    assert verb == "complete"
    assert (task["task_id"], task["payload"], task["class"]) == (7, {"folder": "/x; rm -rf"}, "interactive")
    assert (task["checkpoint"], task["journal"], task["attempt"]) == ({"at": 3}, ["a"], 1)
    assert "token" not in task
    assert env == {"EVENFLOW_TASK_ID": "7", "EVENFLOW_TASK_TYPE": "index_text", "EVENFLOW_KEY": None}
    assert stdin == ""
    console.until(lambda: not list(tmp_path.glob("evenflow-*")))


@pytest.mark.parametrize(
    ("command", "options", "result"),
    [
        ("sh -c 'echo {} > $EVENFLOW_RESULT_FILE'", [], {}),
        ("cp {task.json} {result.json}", [], "task"),
        ("sh -c 'printf \"an\\nanswer\"'", ["--stdout-result"], {"stdout": "an\nanswer", "cut": False}),
        ("sh -c 'cat > {result.json}'", ["--stdin"], "task"),
        ("sh -c 'echo ::result 1; echo ::result 2; echo 3 > {result.json}'", [], 2),
        ("sh -c 'echo ::result oops; echo ::result 2'", [], 2),
    ],
)
def test_where_results_come_from(console: Console, work: Any, command: str, options: list[str], result: Any) -> None:
    console.add(7)
    verb, body = work(command, *options).ended()
    assert verb == "complete"
    assert body["result"]["task_id"] == 7 if result == "task" else body["result"] == result


@pytest.mark.parametrize("command", ["sh -c 'echo ::result oops'", "sh -c 'echo oops > {result.json}'"])
def test_a_result_that_is_no_json_is_not_lost_silently(console: Console, work: Any, command: str) -> None:
    console.add(7)
    verb, body = work(command).ended()
    assert (verb, body["error"]["kind"], body["error"]["type"]) == ("fail", "transient", "BadResult")


def test_a_result_the_server_refuses_fails_the_task(console: Console, work: Any) -> None:
    console.add(7)
    verb, body = work("""sh -c 'echo "::result \\"too large\\""'""").ended()
    assert (verb, body["error"]["type"]) == ("fail", "RefusedResult")


# Exit codes


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(0, "complete"), (1, "transient"), (64, "permanent"), (65, "permanent"), (69, "tool_limited"), (75, "transient")],
)
def test_the_exit_code_decides_the_end(console: Console, work: Any, code: int, outcome: str) -> None:
    console.add(7)
    verb, body = work(f"sh -c 'echo first >&2; echo no such folder >&2; exit {code}'").ended()
    if outcome == "complete":
        assert (verb, body.get("result")) == ("complete", None)
        return
    assert (verb, body["error"]["kind"]) == ("fail", outcome)
    assert body["error"]["message"] == f"exit code {code}: no such folder"
    assert body["error"]["stack"] == "first\nno such folder"


def test_a_signal_is_named(console: Console, work: Any) -> None:
    console.add(7)
    verb, body = work("sh -c 'kill -SEGV $$'").ended()
    assert (verb, body["error"]["message"], body["error"]["kind"]) == ("fail", "killed by SIGSEGV", "transient")


def test_own_exit_codes_and_an_error_line(console: Console, work: Any) -> None:
    said = '::error {"message": "CRM is full", "kind": "tool_limited", "tool": "crm", "retry_after_s": 30}'
    console.add(7)
    worker = work(f"""sh -c 'echo "{said.replace('"', chr(92) + '"')}"; exit 64'""")
    verb, body = worker.ended()
    assert (verb, body["error"]["kind"], body["error"]["message"]) == ("fail", "tool_limited", "CRM is full")
    assert (body["tool"], body["retry_after_s"]) == ("crm", 30)
    worker.stop()
    console.ended.clear()
    console.add(8)
    assert work("sh -c 'exit 42'", "--exit-code", "42=release").ended()[0] == "release"


# Life


def test_the_lease_is_kept_alive_while_the_child_lives(console: Console, work: Any) -> None:
    console.add(7)
    work("sleep 1.5")  # the TTL is 0.6 s
    console.until(console.ends, 10)
    assert console.ends()[0][0] == "complete"
    beats = [call.at for call in console.made("/heartbeats") if call.body["leases"]]
    assert len(beats) >= 5
    assert max(later - sooner for sooner, later in pairwise(beats)) < console.ttl_s


def test_progress_checkpoints_and_malformed_lines(console: Console, work: Any) -> None:
    script = [
        '::progress {"step": 1, "fraction": 0.25, "note": "reading", "cost": 1.5}',
        "::progress {broken",
        '::progress {"fraction": 7}',
        '::checkpoint {"at": 1}',
        '::journal "mail 7"',
        "plain words",
    ]
    code = (
        "import sys, time; print(sys.argv[1], flush=True); sys.stdout.buffer.write(b'\\xff\\xfe\\n'); time.sleep(0.6)"
    )
    console.add(7)
    worker = work(f"{sys.executable} -c \"{code}\" '{chr(10).join(script)}'", "--json")
    verb, body = worker.ended()
    assert (verb, body["cost"]) == ("complete", 1.5)
    reports = [
        lease["progress"]
        for call in console.made("/heartbeats")
        for lease in call.body["leases"]
        if "progress" in lease
    ]
    assert reports == [{"step": 1, "fraction": 0.25, "note": "reading", "cost": 1.5}]
    assert [(call.body["checkpoint"], call.body["append"]) for call in console.made("/checkpoint")] == [
        ({"at": 1}, False),
        ("mail 7", True),
    ]
    returned, text, _ = worker.stop()
    events = [json.loads(line) for line in text.splitlines()]
    assert returned == 0
    warnings = [event["text"] for event in events if event["event"] == "warning"]
    assert len(warnings) == 2
    assert "::progress" in warnings[0]
    assert "fraction must be within 0..1" in warnings[1]
    assert [event["line"] for event in events if event["event"] == "output"] == ["plain words", "\ufffd\ufffd"]
    assert [event["event"] for event in events if event["event"] in {"started", "completed"}] == [
        "started",
        "completed",
    ]


def test_progress_from_a_file(console: Console, work: Any) -> None:
    code = (
        "import sys, time; file = open(sys.argv[3], 'w'); "
        "[(file.write('{\\\"step\\\": %d}\\n' % step), file.flush(), time.sleep(0.3)) for step in range(9)]"
    )
    console.add(7)
    work(python(code)).ended()
    steps = [
        lease["progress"]["step"]
        for call in console.made("/heartbeats")
        for lease in call.body["leases"]
        if "progress" in lease
    ]
    assert len(steps) >= 2
    assert steps == sorted(steps)


def test_a_line_without_end_does_not_fill_the_memory(console: Console, work: Any) -> None:
    code = "import sys; [sys.stdout.write('x' * 1000000) for _ in range(8)]; print(); print('::result 1')"
    console.add(7)
    worker = work(f'{sys.executable} -c "{code}"', "--json")
    assert worker.ended()[1]["result"] == 1
    text = worker.stop()[1]
    assert max(len(json.loads(line).get("line", "")) for line in text.splitlines()) == 4000


def test_slots_run_in_parallel(console: Console, work: Any, tmp_path: Path) -> None:
    for number in range(3):
        console.add(number + 1)
    # each waits until all three are there
    command = (
        "sh -c 'touch {folder}/n$EVENFLOW_TASK_ID; while [ $(ls {folder}/n* | wc -l) -lt 3 ]; do sleep 0.05; done'"
    )
    work(command, "--slots", "3")
    console.until(lambda: len(console.ends()) == 3, 15)
    assert {verb for verb, _ in console.ends()} == {"complete"}


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
