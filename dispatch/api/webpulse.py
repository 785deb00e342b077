"""The pulse of a web process: a thread that registers it and beats each second, for as long as its event loop turns.

Parked claims and the reclaim of silent leases look at it (was anybody there to hear a heartbeat?). A loop that hangs
stops the pulse: `tick()` is called from the loop once a second where there is one. EVENFLOW_PULSE=False turns it off.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.db import Error, connection

from dispatch.services import pulse

log = logging.getLogger("evenflow.web")

EVERY_S = 1.0
HUNG_S = 3.0  # an event loop silent for this long takes no calls


class Pulse:
    """One per process; `id` is None until it is registered."""

    def __init__(self, kind: str = "web") -> None:
        self.kind = kind
        self.id: int | None = None
        self.on_tick: Callable[[], None] = lambda: None  # for whoever started this process
        self._ticked: float | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Beat from now on, until the process ends or `stop()`. Once is enough."""
        if self._thread is None and settings.EVENFLOW_PULSE:
            self._thread = threading.Thread(target=self._run, name="evenflow-pulse", daemon=True)
            self._thread.start()
            atexit.register(self.stop)

    def tick(self) -> None:
        """The event loop turns. From the first tick on, silence stops the pulse."""
        self._ticked = time.monotonic()
        self.on_tick()

    def stop(self) -> None:
        """Say goodbye, so that nobody waits for this process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S if self.id else 0):
            if self._ticked is not None and time.monotonic() - self._ticked > HUNG_S:
                continue
            try:
                if self.id is None or not pulse.beat(self.id):
                    self.id = pulse.register_process(self.kind)
            except Error as error:
                log.warning("no pulse: %s", error, extra={"action": "pulse_failed"})
                self._close()
                self._stop.wait(EVERY_S)
        if self.id is not None:
            with suppress(Error):
                pulse.end(self.id)
        self._close()

    @staticmethod
    def _close() -> None:
        with suppress(Error):
            connection.close()


current = Pulse()
