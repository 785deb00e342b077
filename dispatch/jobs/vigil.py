"""Notices processes that stand still, so that whoever started them can replace them.

Two signs. The kernel says that a process is stopped (SIGSTOP) for STOPPED_S; or its beat, a number in shared memory
that its loop counts up, has not moved for STILL_S (who has not begun to beat is not judged by it). Nothing here asks
the database, so an outage of it stops no beat as long as the loop goes round; one that hangs inside a statement is
struck once, and then with twice the patience each time: a database that hangs makes no storm of restarts. Time counts
only while the watcher itself runs, so that a machine or a terminal that slept as a whole wakes up unharmed. Linux only.
"""

import os
import struct
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STOPPED_S = 5.0
STILL_S = 30.0
LONGEST_S = 480.0  # the patience stops doubling here
STEADY_S = 120.0  # as long without a strike, and the patience is the first one again
STEP_S = 1.0  # more than this between two looks is the watcher's own sleep
GONE_S = 60.0  # who has not been looked at for so long is forgotten


HANDLE = "EVENFLOW_BEAT_FD"  # tells a program that is started (not forked) which handle its beat has


class Beat:
    """A number in shared memory that its owner counts up and its watcher reads.

    Made by the watcher, before the fork; a program that it starts finds its own by `inherited()`.
    """

    def __init__(self, handle: int | None = None) -> None:
        self.handle = os.memfd_create("evenflow-beat") if handle is None else handle  # for a program that is started
        self._count = 0
        weakref.finalize(self, os.close, self.handle)

    def beat(self) -> None:
        """The loop goes round."""
        self._count += 1
        self._write(self._count)

    def begin(self) -> None:
        """Nothing has beaten yet: a new life begins."""
        self._write(0)

    def _write(self, count: int) -> None:
        os.pwrite(self.handle, struct.pack("=Q", count), 0)

    @property
    def count(self) -> int | None:
        """How often it has beaten; None while it has not."""
        stored = os.pread(self.handle, 8, 0)
        return (struct.unpack("=Q", stored)[0] or None) if stored else None


def inherited() -> Beat:
    """The beat that whoever started this program looks at; one that nobody looks at where there is none."""
    handle = os.environ.pop(HANDLE, "")
    return Beat(int(handle) if handle else None)


@dataclass
class _Sight:
    """What the watcher knows of one process."""

    pid: int
    count: int | None
    looked: float
    stopped: float = 0.0
    still: float = 0.0


class Vigil:
    """The watch of one parent over its children; `look` at each of them once a second or more often."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sights: dict[str, _Sight] = {}
        self._patience: dict[str, tuple[float, float]] = {}  # name: seconds, last struck

    def look(self, name: str, pid: int, count: int | None = None) -> str | None:
        """Why this process has to be replaced, None while it is well. `count` is its beat, where it has one."""
        now = self._clock()
        sight = self._sights.get(name)
        if sight is None or sight.pid != pid:
            self._sights = {one: seen for one, seen in self._sights.items() if now - seen.looked < GONE_S}
            self._sights[name] = _Sight(pid, count, now)
            return None
        passed, sight.looked = min(now - sight.looked, STEP_S), now
        sight.stopped = sight.stopped + passed if is_stopped(pid) else 0.0
        sight.still = sight.still + passed if count is not None and count == sight.count else 0.0
        sight.count = count
        patience = self._patience_of(name, now)
        if sight.stopped > STOPPED_S:
            return "is stopped"
        if sight.still > patience:
            self._patience[name] = (min(LONGEST_S, 2 * patience), now)
            return f"has stood still for {patience:g} s"
        return None

    def _patience_of(self, name: str, now: float) -> float:
        patience, struck = self._patience.get(name, (STILL_S, now))
        return STILL_S if now - struck > STEADY_S + patience else patience


def is_stopped(pid: int) -> bool:
    """Whether the kernel keeps this process from running (SIGSTOP and its kin)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
