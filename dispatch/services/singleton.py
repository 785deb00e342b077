"""One of several equal processes works, the others stand by: a lock that PostgreSQL frees when its holder dies.

A holder that hangs is ended after 10 s without a sign: `acquire` and `check` show one, so call either every second.
"""

import logging

from dispatch.store import db, seat

logger = logging.getLogger(__name__)


class Singleton:
    """The right to be the one reconciler."""

    def __init__(self) -> None:
        self._seat = seat.Seat(seat.RECONCILE, 0, "reconciler")

    def acquire(self) -> bool:
        """Try for about half a second; True while this process is the one."""
        if self._seat.held and self._seat.alive():
            return True
        if self._seat.take():
            return True
        for _, pid in db.tuples("depose_silent", {"section": seat.RECONCILE, "number": 0}):
            logger.warning(
                "ended the backend %s of a reconciler that hangs", pid, extra={"action": "reconciler_deposed"}
            )
        return False

    def release(self) -> None:
        """Let another one work."""
        self._seat.leave()
