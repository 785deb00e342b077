"""The seat of a leader: an advisory lock held by a dedicated connection, freed by PostgreSQL when the holder dies.

`SECTION` numbers keep our locks apart from each other: (DISPATCH, pool id), (RECONCILE, 0).
"""

import contextlib

import psycopg

from dispatch.store import dedicated

DISPATCH = 0x4546_4401
RECONCILE = 0x4546_4402
PATIENCE = "500ms"  # one try to get the lock: between tries the caller looks at the holder's pulse


class Seat:
    """One lock on one connection. `take` waits for it a moment at a time; `alive` tells whether it is still held."""

    def __init__(self, section: int, number: int, name: str) -> None:
        self.key = (section, number)
        self.name = name
        self._connection: dedicated.Connection | None = None
        self.held = False

    @property
    def backend_pid(self) -> int | None:
        """The PostgreSQL process that holds (or waits for) the lock."""
        return None if self._connection is None else self._connection.info.backend_pid

    def take(self) -> bool:
        """Wait for the lock for at most PATIENCE; True when it is held now. Raises psycopg.Error without a database."""
        if self.held:
            return True
        try:
            if self._connection is None:
                self._connection = dedicated.connect(self.name)
                self._connection.execute(f"SET lock_timeout = '{PATIENCE}'")
            self._connection.execute("SELECT pg_advisory_lock(%s, %s)", self.key)
        except psycopg.errors.LockNotAvailable:
            return False
        except psycopg.Error:
            self.leave()
            raise
        self.held = True
        return True

    def alive(self) -> bool:
        """Whether the connection that holds the lock still answers."""
        if not self.held or self._connection is None:
            return False
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self.leave()
        return self.held

    def leave(self) -> None:
        """Give the lock back, if it is held, and close the connection."""
        self.held = False
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
