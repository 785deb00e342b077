"""The supervisor and the lifeline, with small real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatch.jobs import supervisor as module
from dispatch.jobs.lifeline import Stop
from dispatch.jobs.readyfile import ReadyFile
from dispatch.jobs.supervisor import Part, Supervisor

HERE = Path(__file__).resolve().parent.parent.parent


def part(code: str, **options: int) -> Part:
    return Part(name="child", command=[sys.executable, "-c", code], env=dict(os.environ), cwd=HERE, **options)


def until(condition: Callable[[], object], patience: float = 15.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.stop()


def test_a_child_that_dies_comes_back_with_growing_pauses(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "lives"
    supervisor.add(part(f"import time; open({str(log)!r}, 'a').write(f'{{time.monotonic()}}\\n')"))

    def lives() -> list[float]:
        supervisor.tick()
        return [float(line) for line in log.read_text().splitlines()] if log.exists() else []

    until(lambda: len(lives()) >= 3)
    assert supervisor.deaths() >= 2
    first, second, third = lives()[:3]
    assert third - second > module.RESTART_S[1] > module.RESTART_S[0]
    assert second > first


def test_stop_goes_wave_by_wave_and_kills_who_does_not_listen(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_PATIENCE_S", 0.5)
    order = tmp_path / "order"
    code = (
        "import signal, time, sys\n"
        "def bye(*_):\n    open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit()\n"
        "signal.signal(signal.SIGTERM, bye); open(sys.argv[1] + sys.argv[2], 'w'); time.sleep(60)"
    )
    deaf = (
        "import signal, time, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1] + 'd', 'w'); time.sleep(60)"
    )
    for name, wave, body in (("a", 0, code), ("b", 1, code), ("d", 1, deaf)):
        made = part(body, wave=wave)
        supervisor.add(Part(**{**made.__dict__, "command": [*made.command, str(order), name]}))
    supervisor.tick()
    until(lambda: all(Path(f"{order}{name}").exists() for name in "abd"))
    supervisor.stop()
    assert order.read_text() == "ba"


def test_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    child = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import os, sys, time; from pathlib import Path; from dispatch.jobs.supervisor import *\n"
        "s = Supervisor(); s.add(Part(name='c', command=[sys.executable, '-c', sys.argv[1]], env=dict(os.environ),"
        " cwd=Path('.'))); s.tick(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent, child], cwd=HERE) as process:
        until(lambda: told.exists() and told.read_text())
        pid = int(told.read_text())
        process.send_signal(signal.SIGKILL)
    until(lambda: not _lives(pid))


def test_forks_die_with_their_maker_down_the_tree(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from dispatch.jobs import lifeline; lifeline.bind_forks()\n"
        "for _ in range(3):\n"
        "    pid = os.fork()\n"
        "    if pid: open(sys.argv[1], 'a').write(f'{pid}\\n'); time.sleep(60)\n"
        "time.sleep(60)"
    )
    told = tmp_path / "pids"
    with subprocess.Popen([sys.executable, "-c", code, str(told)], cwd=HERE) as process:
        until(lambda: told.exists() and told.read_text().count("\n") == 3)
        process.send_signal(signal.SIGKILL)
    until(lambda: not any(_lives(int(pid)) for pid in told.read_text().split()))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_stop_wakes_the_waiting_loop() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    stop = Stop(signal.SIGUSR1)
    try:
        assert not stop.wait(0.01) and not stop.is_set()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.wait(30) and stop.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_ready_file_is_private_whole_and_remembers_a_password(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    first = ReadyFile(path)
    assert not path.exists()
    first.write("http://h", "ef_x", "o@h", "secret")
    assert path.stat().st_mode & 0o777 == 0o600
    second = ReadyFile(path)
    assert not path.exists(), "an old file must not look like a new start"
    assert second.known_password("o@h") == "secret" and second.known_password("p@h") is None
    second.discard()
    assert list(tmp_path.iterdir()) == []
