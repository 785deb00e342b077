"""`evenflow work --exec` as a real process: the task, its progress, its result, its exit code."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agent.console import Console
from tests.agent.work.worker import python

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
