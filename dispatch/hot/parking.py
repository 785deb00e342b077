"""Parked calls: an event per waiting claim (by session) or look at a task (by task).

Set by the process's one LISTEN connection and by a poll behind it. A call that parks costs a few kilobytes, no thread
and no connection. `wake` is called with ids from notifications; once a second one cheap statement asks which parked
sessions have offers, and which tasks have ended, that nobody heard of.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dispatch.errors import Unavailable

MOST = 20_000  # parked claims in one process


class Parking:
    """Who waits for which session, or for which task."""

    def __init__(self) -> None:
        self._events: dict[int, set[asyncio.Event]] = defaultdict(set)
        self._count = 0
        self.closing = False

    @contextmanager
    def place(self, session_id: int) -> Iterator[asyncio.Event]:
        """An event that is set whenever something may have happened to the session."""
        if self._count >= MOST:
            raise Unavailable("Too many calls wait in this process; try again.", retry_after_s=1)
        event = asyncio.Event()
        self._events[session_id].add(event)
        self._count += 1
        try:
            yield event
        finally:
            self._count -= 1
            events = self._events[session_id]
            events.discard(event)
            if not events:
                del self._events[session_id]

    def waited(self) -> list[int]:
        """What is waited for."""
        return list(self._events)

    def wake(self, session_ids: Iterable[int]) -> None:
        """Let the claims of these sessions look again."""
        for session_id in session_ids:
            for event in self._events.get(session_id, ()):
                event.set()

    def wake_all(self) -> None:
        """After a gap in the notifications, or at the end."""
        self.wake(self.waited())

    def close(self) -> None:
        """Let everybody go: the server stops."""
        self.closing = True
        self.wake_all()
