"""Ends what a run of the tests started, however the run ends: kill -9 of pytest leaves no server and no folder.

    watch = watchdog.watch(folder)   # a folder that only this run's processes name
    ...
    watch.end()                      # the orderly way: the same clean-up, waited for

The watchdog is a process of its own that reads a pipe whose other end its starter holds; the end of that pipe is the
starter's end. Then every process that has the folder in its command line or environment is ended, and the folder
removed. Linux only (/proc).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 10.0


class Watch:
    """The watchdog of one folder."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def end(self) -> None:
        """Have it clean up now, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def watch(folder: Path) -> Watch:
    """Start the watchdog of this folder; it outlives signals to our process group."""
    command = [sys.executable, __file__, str(folder)]
    return Watch(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))


def named(folder: Path) -> list[tuple[int, str]]:
    """Process ids and names of all others that name this folder."""
    needle = os.fsencode(folder)
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if needle in (place / "cmdline").read_bytes() or needle in (place / "environ").read_bytes():
                found.append((int(place.name), (place / "comm").read_text().strip()))
    return found


def clean_up(folder: Path) -> None:
    """End all processes that name the folder, PostgreSQL in a way that frees its shared memory; remove the folder."""
    patience = time.monotonic() + PATIENCE_S
    while left := named(folder):
        for pid, name in left:
            softly = name == "postgres" and time.monotonic() < patience
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGQUIT if softly else signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clean_up(Path(sys.argv[1]))
