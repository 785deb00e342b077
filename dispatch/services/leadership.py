"""Leadership: one dispatcher per pool. Waits for the pool's seat, deposes a leader that hangs, raises the epoch.

Correctness never rests on this: each cycle is fenced by the epoch (services/dispatch.py). The seat only keeps two
leaders from wasting their work.
"""

import logging

from dispatch.store import db, seat

logger = logging.getLogger(__name__)


class Leadership:
    """The claim of one process to lead one pool. Use from one thread."""

    def __init__(self, pool_id: int, process_id: int | None = None) -> None:
        self.pool_id = pool_id
        self.process_id = process_id
        self.epoch: int | None = None
        self._seat = seat.Seat(seat.DISPATCH, pool_id, f"leader of pool {pool_id}")

    def acquire(self) -> bool:
        """Try for about half a second to become leader; True when this process leads (and `epoch` is set).

        Raises django.db.DatabaseError or psycopg.Error while the database is away.
        """
        if self.epoch is not None:
            return True
        if not self._seat.take():
            self._depose_stuck()
            return False
        params = {"pool_id": self.pool_id, "process_id": self.process_id, "backend_pid": self._seat.backend_pid}
        try:
            self.epoch = int(db.tuples("take_leadership", params)[0][0])
        except BaseException:
            self.release()
            raise
        logger.info("leading pool %s, epoch %s", self.pool_id, self.epoch, extra={"action": "leadership_taken"})
        return True

    def check(self) -> bool:
        """Whether the seat is still held: a connection that died in silence shows here."""
        if self.epoch is not None and not self._seat.alive():
            self.epoch = None
        return self.epoch is not None

    def release(self) -> None:
        """Give the seat back."""
        self.epoch = None
        self._seat.leave()

    def _depose_stuck(self) -> None:
        stuck = db.tuples("depose_stuck", {"pool_id": self.pool_id, "section": seat.DISPATCH})
        for ended, pid in stuck + db.tuples("depose_stuck_cycle", {"pool_id": self.pool_id}):
            logger.warning(
                "ended the backend %s of a leader without a pulse (%s)", pid, ended, extra={"action": "leader_deposed"}
            )


def active_pools() -> list[int]:
    """Pools that need a leader."""
    return [row[0] for row in db.tuples("active_pools")]
