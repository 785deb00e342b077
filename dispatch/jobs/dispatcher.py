"""The dispatcher: leads every pool it can get, one thread each; stands by for the others.

Woken by notifications within milliseconds, by the next due task, and at least every second. Any number of dispatchers
may run: each pool has one leader (services/leadership.py), each cycle is fenced (services/dispatch.py). New pools get
a thread within a second. Connections per pool: one for the seat, one for the cycles; and one that listens.
"""

import logging
import threading
import time

from dispatch import events
from dispatch.jobs.loops import DATABASE_ERRORS, RETRY_S, Pulse, Stop, reset_connection
from dispatch.services import dispatch, leadership
from dispatch.store import listen

POLL_S = 1.0
LISTEN_S = 0.5  # how long the main thread waits for a notification before it looks at the stop and the pools
JOIN_S = 3.0
SOON_S = 0.01  # before a task that is due already, but was locked, is looked at again
GATHER = 0.5  # of a cycle's duration: the pause after it
GATHER_MOST_S = 0.005
UNASKED_S = 0.1
PAUSE_S = 0.02  # after a failed cycle, doubled up to POLL_S

logger = logging.getLogger(__name__)


class PoolLoop(threading.Thread):
    """Waits for the lead of one pool and dispatches it until asked to stop."""

    def __init__(self, pool_id: int, process_id: int | None) -> None:
        super().__init__(name=f"pool-{pool_id}", daemon=True)
        self.pool_id = pool_id
        self.wake = threading.Event()
        self.stopping = threading.Event()
        self.lead = leadership.Leadership(pool_id, process_id)
        self._failures = 0

    def run(self) -> None:
        """Until `finish`."""
        while not self.stopping.is_set():
            try:
                if self.lead.acquire():
                    self._dispatch()
            except dispatch.Deposed:
                logger.warning("another dispatcher leads pool %s now", self.pool_id, extra={"action": "deposed"})
                self.lead.release()
            except DATABASE_ERRORS as error:
                logger.warning("pool %s: %s", self.pool_id, error, extra={"action": "dispatch_failed"})
                self._recover()
            except Exception:
                logger.exception("a cycle of pool %s failed", self.pool_id, extra={"action": "dispatch_failed"})
                self._recover()
        self.lead.release()
        reset_connection()

    def _dispatch(self) -> None:
        """Cycle while this process leads. Leaves with an exception, or when the seat is lost or the stop asked for."""
        epoch = self.lead.epoch
        assert epoch is not None
        memory = dispatch.load_memory(self.pool_id)
        while not self.stopping.is_set() and self.lead.check():
            self.wake.clear()
            began = time.monotonic()
            done = dispatch.cycle(self.pool_id, epoch, memory)
            self._failures = 0
            if not done.more:
                self._rest(done.next_due_s, time.monotonic() - began)

    def _rest(self, next_due_s: float | None, took_s: float) -> None:
        """Until the next cycle is worth its price. A short pause lets what comes together be planned together; while
        nobody asks for work, news (an end, a submit) wait for up to UNASKED_S."""
        now = time.monotonic()
        time.sleep(min(GATHER_MOST_S, GATHER * took_s))
        self.wake.wait(POLL_S if next_due_s is None else min(POLL_S, max(SOON_S, next_due_s)))
        while self.wake.is_set() and not self.stopping.is_set() and not dispatch.demanded(self.pool_id):
            left = now + UNASKED_S - time.monotonic()
            if left <= 0:
                return
            self.wake.clear()
            self.wake.wait(left)
            if not self.wake.is_set():
                return

    def _recover(self) -> None:
        """The outcome of the last transaction is unknown: begin again with the stored memory, on a new connection."""
        reset_connection()
        self.stopping.wait(min(POLL_S, PAUSE_S * 2**self._failures))
        self._failures = min(self._failures + 1, 10)

    def finish(self) -> None:
        """Ask the thread to stop."""
        self.stopping.set()
        self.wake.set()


class Dispatcher:
    """All pool threads of one process."""

    def __init__(self) -> None:
        self.pulse = Pulse("dispatcher")
        self.pools: dict[int, PoolLoop] = {}

    def tend(self) -> None:
        """Beat; start threads for new pools, end those of pools that are gone, replace dead ones."""
        leading = [loop.pool_id for loop in self.pools.values() if loop.lead.epoch is not None]
        process_id = self.pulse.beat({"pools": sorted(self.pools), "leading": sorted(leading)})
        wanted = set(leadership.active_pools())
        for pool_id in wanted:
            if pool_id not in self.pools or not self.pools[pool_id].is_alive():
                self.pools[pool_id] = PoolLoop(pool_id, process_id)
                self.pools[pool_id].start()
        for pool_id in set(self.pools) - wanted:
            self.pools.pop(pool_id).finish()

    def wake(self, notes: list[listen.Note]) -> None:
        """Wake the pools that are named; a payload without ids names all."""
        for _, payload in notes:
            for pool_id in listen.ids(payload) or list(self.pools):
                if pool_id in self.pools:
                    self.pools[pool_id].wake.set()

    def end(self) -> None:
        """Stop all threads and say goodbye."""
        for loop in self.pools.values():
            loop.finish()
        for loop in self.pools.values():
            loop.join(JOIN_S)
        self.pulse.end()


def run(stop: Stop) -> None:
    """Dispatch until `stop` is set; survives any outage of the database."""
    dispatcher = Dispatcher()
    listener = listen.Listener(events.POOL, name="dispatcher")
    tended = 0.0
    while not stop.is_set():
        try:
            if time.monotonic() - tended > LISTEN_S:
                dispatcher.tend()
                tended = time.monotonic()
        except DATABASE_ERRORS as error:
            logger.warning("the database is away: %s", error, extra={"action": "database_away"})
            reset_connection()
            stop.wait(RETRY_S)
            continue
        _listen(listener, dispatcher, stop)
    listener.close()
    dispatcher.end()
    reset_connection()


def _listen(listener: listen.Listener, dispatcher: Dispatcher, stop: Stop) -> None:
    """Pass notifications on for about LISTEN_S."""
    notes = listener.wait(LISTEN_S)
    while notes and not stop.is_set():
        dispatcher.wake(notes)
        notes = listener.wait(0)
