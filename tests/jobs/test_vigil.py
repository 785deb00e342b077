"""The watch over processes that stand still, on a clock that the test turns, and on a real stopped process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dispatch.jobs import vigil as module
from dispatch.jobs.supervisor import Part, Supervisor
from dispatch.jobs.vigil import LONGEST_S, STEADY_S, STILL_S, STOPPED_S, Beat, Vigil, is_stopped


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def struck_after(vigil: Vigil, clock: Clock, pid: int, *, beats: bool = False, most: float = 2000) -> float | None:
    """Seconds of looking every half second until it strikes; None when it never does."""
    count, began = 0, clock.now
    while clock.now - began < most:
        if vigil.look("loop", pid, count):
            return clock.now - began
        count += beats
        clock.now += 0.5
    return None


def test_a_beat_that_goes_on_is_left_alone_and_one_that_ends_is_struck() -> None:
    clock = Clock()
    vigil = Vigil(clock)
    assert struck_after(vigil, clock, os.getpid(), beats=True, most=200) is None
    assert STILL_S < (struck_after(vigil, clock, os.getpid()) or 0) <= STILL_S + 2


def test_what_hangs_again_and_again_is_struck_ever_more_rarely_and_forgiven_in_time() -> None:
    clock = Clock()
    vigil = Vigil(clock)
    waits = [round(struck_after(vigil, clock, pid) or 0) for pid in range(2**22, 2**22 + 7)]  # each a new process
    assert waits == [pytest.approx(min(LONGEST_S, STILL_S * 2**n), abs=2) for n in range(7)]
    clock.now += LONGEST_S + STEADY_S + 1
    assert struck_after(vigil, clock, 2**22 + 9) == pytest.approx(STILL_S, abs=2)


def test_the_sleep_of_the_watcher_itself_is_no_ones_standstill() -> None:
    clock = Clock()
    vigil = Vigil(clock)
    vigil.look("loop", os.getpid(), 1)
    clock.now += 3600
    assert vigil.look("loop", os.getpid(), 1) is None


def test_who_is_gone_is_forgotten() -> None:
    clock = Clock()
    vigil = Vigil(clock)
    for number in range(5):
        vigil.look(f"worker {number}", number, None)
    clock.now += 3600
    vigil.look("worker 9", 9, None)
    assert list(vigil._sights) == ["worker 9"]


def test_a_stopped_process_is_seen_by_the_kernels_word() -> None:
    clock = Clock()
    vigil = Vigil(clock)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            os.kill(process.pid, signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            assert is_stopped(process.pid)
            assert struck_after(vigil, clock, process.pid, beats=True) == pytest.approx(STOPPED_S, abs=1.1)
            os.kill(process.pid, signal.SIGCONT)
            end = time.monotonic() + 10
            while is_stopped(process.pid):
                assert time.monotonic() < end
            assert vigil.look("loop", process.pid, -1) is None, "it goes on: all is forgotten"
        finally:
            process.kill()
    assert not is_stopped(process.pid)


def test_the_supervisor_replaces_a_stopped_child_but_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOPPED_S", 0.3)
    supervisor = Supervisor()
    code = f"import os, time; open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w'); time.sleep(60)"
    for name, watch in (("web", True), ("agent", False)):
        command = [sys.executable, "-c", code]
        supervisor.add(Part(name=name, command=command, env=dict(os.environ), cwd=tmp_path, watch=watch))

    def lives() -> set[int]:
        supervisor.tick()
        time.sleep(0.02)
        return {int(path.name) for path in tmp_path.iterdir()}

    try:
        end = time.monotonic() + 20
        while len(first := lives()) < 2:
            assert time.monotonic() < end
        for pid in first:
            os.kill(pid, signal.SIGSTOP)
        while len(lives()) < 3:
            assert time.monotonic() < end, "the stopped child was not replaced"
        assert sum(is_stopped(pid) for pid in first) == 1, "the agent stays as it is"
    finally:
        for pid in filter(is_stopped, lives()):
            os.kill(pid, signal.SIGKILL)  # it would not hear the request to stop
        supervisor.stop()


def test_a_program_that_hangs_after_it_has_beaten_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL_S", 1.5)
    code = (
        "import os, sys, time; from pathlib import Path; from dispatch.jobs import vigil\n"
        "beat, lives = vigil.inherited(), len(list(Path(sys.argv[1]).iterdir()))\n"
        "(Path(sys.argv[1]) / str(os.getpid())).touch()\n"
        "assert vigil.HANDLE not in os.environ\n"
        "if not lives: beat.beat(); time.sleep(60)\n"  # the first one hangs
        "while True: beat.beat(); time.sleep(0.05)"
    )
    supervisor, root = Supervisor(), Path(__file__).resolve().parent.parent.parent
    command = [sys.executable, "-c", code, str(tmp_path)]
    supervisor.add(Part(name="web", command=command, env=dict(os.environ), cwd=root))
    try:
        end = time.monotonic() + 20
        while len(list(tmp_path.iterdir())) < 2:
            supervisor.tick()
            assert time.monotonic() < end, "it was not replaced"
            time.sleep(0.02)
        for _ in range(50):
            supervisor.tick()
            time.sleep(0.02)
        assert len(list(tmp_path.iterdir())) == 2, "the second one beats on"
    finally:
        supervisor.stop()


def test_beats_are_counted_across_a_fork() -> None:
    beat = Beat()
    assert beat.count is None, "who has not begun is not judged"
    pid = os.fork()
    if pid == 0:
        beat.beat()
        os._exit(0)
    os.waitpid(pid, 0)
    assert beat.count == 1
    beat.begin()
    assert beat.count is None
