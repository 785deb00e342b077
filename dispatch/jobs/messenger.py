"""The messenger: delivers webhook messages, several at a time, and tidies their log every minute.

Sending happens in threads that touch no database; this thread takes messages and writes down what became of them.
"""

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from dispatch.jobs.loops import DATABASE_ERRORS, RETRY_S, Pulse, Stop, reset_connection
from dispatch.services import webhook_delivery
from dispatch.services.outbound import Sent

POLL_S = 0.5
THREADS = 16
TIDY_S = 60.0
STOP_S = 2.0  # what is on its way at a stop may still arrive; the rest is sent again later

logger = logging.getLogger(__name__)


class Messenger:
    """One messenger; `turn` is one look at the database."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        self._under_way: dict[Future[Sent], webhook_delivery.Message] = {}
        self._tidied = time.monotonic()

    def turn(self) -> bool:
        """Write down what arrived, send what is due; whether anything was done."""
        done = self._record()
        if time.monotonic() - self._tidied >= TIDY_S:
            self._tidied = time.monotonic()
            webhook_delivery.tidy()
        taken = []
        if free := THREADS - len(self._under_way):
            busy: dict[int, int] = {}
            for message in self._under_way.values():
                busy[message["webhook_id"]] = busy.get(message["webhook_id"], 0) + 1
            taken = webhook_delivery.take(free, busy)
        for message in taken:
            self._under_way[self._threads.submit(webhook_delivery.send, message)] = message
        return done or bool(taken)

    def _record(self) -> bool:
        ended = [future for future in self._under_way if future.done()]
        for future in ended:
            webhook_delivery.record(self._under_way[future], future.result())
            del self._under_way[future]  # only now: a failed write is tried again
        return bool(ended)

    def rest(self, timeout: float) -> None:
        """Sleep until a message has arrived, or for so long."""
        wait(self._under_way, timeout, FIRST_COMPLETED)

    @property
    def under_way(self) -> int:
        """How many messages are on their way."""
        return len(self._under_way)

    def end(self) -> None:
        """Write down what still arrives within a moment."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + STOP_S
        while self._under_way and time.monotonic() < end:
            self.rest(0.1)
            for future in [future for future in self._under_way if future.cancelled()]:
                del self._under_way[future]
            self._record()


def run(stop: Stop) -> None:
    """Deliver until `stop` is set; survives any outage of the database."""
    pulse, messenger = Pulse("messenger"), Messenger()
    while not stop.is_set():
        try:
            pulse.beat({"under_way": messenger.under_way})
            worked = messenger.turn()
        except DATABASE_ERRORS as error:
            logger.warning("the database is away: %s", error, extra={"action": "database_away"})
            reset_connection()
            stop.wait(RETRY_S)
            continue
        except Exception:
            logger.exception("a turn failed", extra={"action": "messenger_failed"})
            stop.wait(RETRY_S)
            continue
        if messenger.under_way:
            messenger.rest(0.05 if worked else POLL_S)
        elif not worked:
            stop.wait(POLL_S)
    try:
        messenger.end()
    except DATABASE_ERRORS:
        logger.info("the database is away; what arrived meanwhile is sent again later")
    pulse.end()
    reset_connection()
