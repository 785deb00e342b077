"""The demo's agent program as a process: real work, crashes, hangs."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dispatch.agent
from tests.agent.server import KEY, ControlPlane

ROOT = Path(dispatch.agent.__file__).parents[2]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(plane: ControlPlane, tmp_path: Path) -> Iterator[Start]:
    """Start an agent on the folder with two small texts."""
    (tmp_path / "a.md").write_text("One fish, two fish.\n")
    (tmp_path / "b.md").write_text("red fish\n")
    started: list[subprocess.Popen[bytes]] = []

    def run(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dispatch.jobs.demo.agent", "--url", plane.url, "--name", "d1"]
        process = subprocess.Popen(
            [*command, "--root", str(tmp_path), *options], cwd=ROOT, env={**os.environ, "EVENFLOW_KEY": KEY}
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_each_type_does_its_work(plane: ControlPlane, start: Start) -> None:
    plane.add(1, "index_text", {"folder": "."})
    plane.add(2, "hash_files", {"folder": ".", "pattern": "b.*"})
    plane.add(3, "run_command", {"command": "python-version"})
    plane.add(4, "sleep_work", {"seconds": 0.2, "steps": 4}, checkpoint={"step": 2})
    plane.add(5, "poison", {})
    plane.add(6, "index_text", {"folder": "../.."})
    plane.add(7, "run_command", {"command": "rm -rf /"})
    start("--slots", "2")
    plane.until(lambda: len(plane.ends()) == 7, 20)
    ends = {body["task_id"]: (verb, body) for verb, body in plane.ends()}
    assert ends[1][1]["result"]["words"] == 6
    assert ends[1][1]["result"]["top"]["fish"] == 3
    assert ends[2][1]["result"]["files"] == {"b.md": hashlib.sha256(b"red fish\n").hexdigest()}
    assert ends[3][1]["result"]["output"].startswith("Python 3.")
    assert ends[4][1]["result"] == {"steps": 4, "resumed_at": 2}
    assert plane.checkpoints == [{"step": 3}, {"step": 4}]
    assert (ends[5][0], ends[5][1]["error"]["kind"]) == ("fail", "transient")
    assert [ends[number][1]["error"]["kind"] for number in (6, 7)] == ["permanent", "permanent"]


def test_crash_every(plane: ControlPlane, start: Start) -> None:
    for number in (1, 2, 3):
        plane.add(number, "run_command", {"command": "date"})
    process = start("--crash-every", "2")
    assert process.wait(20) == -signal.SIGKILL
    assert [body["task_id"] for _, body in plane.ends()] == [1]
    assert list(plane.leases) == [2], "the second is left behind with its lease"


def test_hang_on_beats_without_progress_until_the_lease_is_lost(plane: ControlPlane, start: Start) -> None:
    plane.add(1, "hash_files", {"folder": "."})
    start("--hang-on", "hash_files")
    plane.until(lambda: len(plane.made("/heartbeats")) >= 5, 20)
    reports = [lease.get("progress", {}) for call in plane.made("/heartbeats") for lease in call.body["leases"]]
    assert all("step" not in report and "fraction" not in report for report in reports)
    plane.add(2, "run_command", {"command": "date"})
    plane.lose(1)
    plane.until(lambda: plane.ends(), 10)
    assert [body["task_id"] for _, body in plane.ends()] == [2]


def test_a_stopped_agent_does_not_pretend_to_have_slept(plane: ControlPlane, start: Start) -> None:
    plane.add(1, "sleep_work", {"seconds": 60, "steps": 3})
    process = start()
    plane.until(lambda: plane.leases, 20)
    plane.until(lambda: plane.made("/heartbeats"))
    process.terminate()
    assert process.wait(5) == 0
    assert [(verb, body["reason"]) for verb, body in plane.ends()] == [("release", "shutdown")]
