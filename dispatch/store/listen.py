"""LISTEN for ever: a blocking listener for loops, and one for event loops. Both reconnect until they are closed.

A notification is a hint: those sent while the connection was down are lost, so callers also poll (about once a second)
and both listeners say when they are (again) connected, which is the moment to look at everything.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from dispatch.store import dedicated

RETRY_S = 0.5  # between attempts to connect

logger = logging.getLogger(__name__)

Note = tuple[str, str]  # channel, payload
Callback = Callable[[str], None]


def ids(payload: str) -> list[int]:
    """The ids in a payload made by store/db.hint; anything else is no id."""
    return [int(part) for part in payload.split(",") if part.isdecimal()]


class Listener:
    """Waits for notifications on its own connection. Not for sharing between threads."""

    def __init__(self, *channels: str, name: str = "listen") -> None:
        self.channels = channels
        self.name = name
        self._connection: dedicated.Connection | None = None

    def wait(self, timeout: float) -> list[Note]:
        """Notifications as (channel, payload), after at most `timeout` seconds; empty when there are none.

        Returns at once, empty, after connecting: what was missed has to be looked up.
        """
        started = time.monotonic()
        try:
            if self._connection is None:
                self._connect()
                return []
            notes = self._connection.notifies(timeout=timeout, stop_after=1)
            return [(note.channel, note.payload) for note in notes]
        except psycopg.Error as error:
            logger.warning("listening failed: %s", error, extra={"action": "listen_failed"})
            self.close()
            time.sleep(max(0.0, min(RETRY_S, timeout) - (time.monotonic() - started)))
            return []

    def _connect(self) -> None:
        fresh = dedicated.connect(self.name)
        try:
            for channel in self.channels:
                fresh.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except psycopg.Error:
            fresh.close()
            raise
        self._connection = fresh

    def close(self) -> None:
        """Let the connection go; the next wait opens another one."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class AsyncListener:
    """Calls back on notifications inside an event loop; `run` is a task that lives as long as the process.

    `callbacks` maps channels to functions of the payload; they must be quick and must not raise. `connected` is called
    after each (re)connect.
    """

    def __init__(
        self, callbacks: Mapping[str, Callback], connected: Callable[[], None] | None = None, name: str = "listen"
    ) -> None:
        self.callbacks = callbacks
        self.connected = connected
        self.name = name

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen(list(self.callbacks))
            except psycopg.Error as error:
                logger.warning("listening failed: %s", error, extra={"action": "listen_failed"})
            await asyncio.sleep(RETRY_S)

    async def _listen(self, channels: Sequence[str]) -> None:
        async with await dedicated.connect_async(self.name) as connection:
            for channel in channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            if self.connected:
                self.connected()
            async for note in connection.notifies():
                self._call(note.channel, note.payload)

    def _call(self, channel: str, payload: str) -> None:
        try:
            self.callbacks[channel](payload)
        except Exception:
            logger.exception("a listener's callback failed", extra={"action": "listen_callback_failed"})
