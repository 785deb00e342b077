"""One child process in a process group of its own: its output line by line, and its certain end.

stdout and stderr are read by a thread each, in lines of at most MAX_LINE bytes (a longer one is cut, its rest dropped),
whatever bytes they are. stop() sends TERM to the whole group, waits the grace, then KILL. When the child itself ends,
what is left of its group is killed. Limit: a grandchild that starts a session of its own leaves the group.
"""

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from dispatch.agent.cli.guard import Guard

MAX_LINE = 2 * 1024 * 1024  # bytes: a result may be 1 MiB
TAIL_LINES = 40  # of stderr, kept for the error
QUIET_S = 2.0  # how long an open pipe may stay silent after the child's end
POLL_S = 0.05
Hear = Callable[[str, str, bool], None]  # stream, line, cut


class Child:
    """Starts at once. Raises OSError when the command cannot be started."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], guard: Guard, hear: Hear, stdin: int) -> None:
        self._hear = hear
        self._guard = guard
        self._busy: set[str] = set()
        self._heard_at = time.monotonic()
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
        self.group = self.process.pid
        guard.watch(self.group)
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), name=f"evenflow-{name}-{self.group}", daemon=True)
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def poll(self) -> int | None:
        """The exit code (negative: a signal), None while it runs."""
        return self.process.poll()

    def stop(self, grace_s: float) -> int:
        """End the whole group and wait for the child: its exit code."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + grace_s
        while time.monotonic() < end and (self.poll() is None or self._alive()):
            time.sleep(POLL_S)
        if self.poll() is None or self._alive():
            self._signal(signal.SIGKILL)
        return self.process.wait()

    def finish(self) -> None:
        """After its end: kill the rest of its group, hear the last lines, close the pipes."""
        self._signal(signal.SIGKILL)
        self._guard.forget(self.group)
        while any(reader.is_alive() for reader in self._readers):
            if not self._busy and time.monotonic() - self._heard_at > QUIET_S:
                return  # somebody outside the group holds the pipe open; what it says is no longer ours
            time.sleep(POLL_S / 5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _alive(self) -> bool:
        with suppress(OSError):
            os.killpg(self.group, 0)
            return True
        return False

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def _read(self, name: str, stream: IO[bytes]) -> None:
        with suppress(ValueError, OSError):  # the pipe was closed under it
            while raw := stream.readline(MAX_LINE):
                cut = len(raw) == MAX_LINE and not raw.endswith(b"\n")
                while cut and (more := stream.readline(MAX_LINE)) and not more.endswith(b"\n"):
                    pass
                self._heard_at = time.monotonic()
                line = raw.decode(errors="replace").rstrip("\r\n")
                if name == "stderr" and line.strip():
                    self.tail.append(line[:2000])
                self._busy.add(name)
                try:
                    self._hear(name, line, cut)
                finally:
                    self._busy.discard(name)
                    self._heard_at = time.monotonic()
