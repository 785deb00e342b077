"""Keeps a few child processes running: starts them, starts them again when they die, stops them all.

A child that dies is started again at once the first time, then with a growing pause (RESTART_S) that is forgotten
after STEADY_S seconds of life. One that stands still (jobs/vigil.py) is killed, and so started again. Children get a
session of their own, so that Ctrl-C reaches the supervisor alone, and die with it. Not for threads: call it from the
main thread of a single-threaded process.
"""

import functools
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dispatch.jobs import lifeline
from dispatch.jobs.vigil import HANDLE, Beat, Vigil

logger = logging.getLogger(__name__)

RESTART_S = (0.1, 0.5, 1, 2, 5, 10)  # pause before the n-th restart in a row
STEADY_S = 20.0
STOP_PATIENCE_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One child: its name in the log, its command, what it inherits."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    pass_fds: tuple[int, ...] = ()
    watch: bool = True  # kill it when it stands still; off for agents, whom leases watch over
    wave: int = 0  # higher waves are stopped first, and are gone before the next one is asked to go


@dataclass
class _Child:
    part: Part
    process: "subprocess.Popen[bytes] | None" = None
    beat: Beat = field(default_factory=Beat)
    started: float = 0.0
    deaths: int = 0
    due: float = field(default_factory=time.monotonic)


class Supervisor:
    """Call `tick()` every few hundred milliseconds; `stop()` ends everything."""

    def __init__(self) -> None:
        self._children: list[_Child] = []
        self._vigil = Vigil()

    def add(self, part: Part) -> None:
        """Start this part at the next tick."""
        self._children.append(_Child(part))

    def deaths(self) -> int:
        """The longest present row of deaths of one part."""
        return max((child.deaths for child in self._children), default=0)

    def tick(self) -> None:
        """See who died and start what is due."""
        now = time.monotonic()
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                self._look(child.part, child.process, child.beat)
            elif child.process is not None:
                self._bury(child, now)
            if child.process is None and child.due <= now:
                _start(child)

    def _look(self, part: Part, process: "subprocess.Popen[bytes]", beat: Beat) -> None:
        if part.watch and (why := self._vigil.look(part.name, process.pid, beat.count)):
            logger.warning("%s (process %s) %s and is killed", part.name, process.pid, why)
            process.kill()

    def _bury(self, child: _Child, now: float) -> None:
        assert child.process is not None
        code, child.process = child.process.returncode, None
        child.deaths = 1 if now - child.started > STEADY_S else child.deaths + 1
        pause = RESTART_S[min(child.deaths, len(RESTART_S)) - 1]
        child.due = now + pause
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        logger.warning("%s %s; starting it again in %g s", child.part.name, how, pause)

    def stop(self) -> None:
        """Ask all to stop, wave after wave; kill who is not gone after STOP_PATIENCE_S seconds."""
        children, self._children = self._children, []
        for wave in sorted({child.part.wave for child in children}, reverse=True):
            _stop([child.process for child in children if child.part.wave == wave and child.process is not None])


def _stop(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        process.terminate()
    patience = time.monotonic() + STOP_PATIENCE_S
    for process in processes:
        try:
            process.wait(max(0.0, patience - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.warning("process %s did not stop in time and is killed", process.pid)
            process.kill()
            process.wait()


def _start(child: _Child) -> None:
    part = child.part
    child.started = time.monotonic()
    child.beat.begin()
    child.process = subprocess.Popen(
        part.command,
        env={**part.env, HANDLE: str(child.beat.handle)},
        cwd=part.cwd,
        stdin=subprocess.DEVNULL,
        pass_fds=(*part.pass_fds, child.beat.handle),
        start_new_session=True,
        preexec_fn=functools.partial(lifeline.die_with, os.getpid()),  # safe: single-threaded
    )
