"""What every long-lived process of ours does first: die with its parent, carry a name, hear the request to stop.

Linux only (prctl). The death signal follows the *thread* that made the process, so make processes in main threads.
"""

import ctypes
import os
import select
import signal
from collections.abc import Callable
from types import FrameType

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` (a process id) ends; exit at once when it is gone already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def bind_forks() -> None:
    """From now on every process that this one forks dies with it, and so on down the tree."""
    forking = [os.getpid()]

    def remember() -> None:
        forking[0] = os.getpid()

    os.register_at_fork(before=remember, after_in_child=lambda: die_with(forking[0]))


def name_process(name: str) -> None:
    """The name in `ps` and `top` (at most 15 bytes)."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15])


class Stop:
    """Set by the given signals; looks like threading.Event, which may deadlock when set inside a signal handler.

    `looked` is called at each look at it: a loop that looks whether it should stop goes round.
    """

    def __init__(self, *signals: signal.Signals, looked: Callable[[], None] = lambda: None) -> None:
        self._looked = looked
        self._set = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        for number in signals:
            signal.signal(number, self._hear)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.set()

    def set(self) -> None:
        """Ask for the stop."""
        if not self._set:
            self._set = True
            os.write(self._write, b".")

    def is_set(self) -> bool:
        """Whether the stop was asked for."""
        self._looked()
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep for at most `timeout` seconds, less when the stop is asked for; whether it was."""
        self._looked()
        if not self._set:
            select.select([self._read], [], [], timeout)
        return self._set
