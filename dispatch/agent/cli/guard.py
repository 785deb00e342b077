"""The guard: no child outlives a wrapper that was killed with kill -9.

A small process beside the wrapper that hears over a pipe which process groups run (`+PGID`, `-PGID`, one a line). When
the pipe ends, the wrapper is gone, whatever the reason: the groups left get TERM, after the grace KILL.
Run as `python -c SOURCE GRACE`, so that it needs nothing but the interpreter; it ignores the signals of a terminal.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

SOURCE = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
def send(number):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)
send(signal.SIGTERM)
end = time.monotonic() + float(sys.argv[1])
while groups and time.monotonic() < end:
    time.sleep(0.05)
    send(0)
send(signal.SIGKILL)
"""


class Guard:
    """Started once per wrapper; `grace_s` between TERM and KILL. Thread-safe."""

    def __init__(self, grace_s: float) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SOURCE, str(grace_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """This process group is to die with us."""
        self._groups.add(group)
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """This process group has ended."""
        self._groups.discard(group)
        self._say(f"-{group}\n")

    def close(self) -> None:
        """End the guard; groups still watched are killed at once."""
        for group in list(self._groups):
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        with self._lock:
            if self._process.stdin and not self._process.stdin.closed:
                self._process.stdin.close()
        self._process.wait()

    def _say(self, text: str) -> None:
        with self._lock:
            assert self._process.stdin is not None
            with suppress(OSError, ValueError):  # somebody ended the guard: the work is worth more than its cover
                self._process.stdin.write(text)
