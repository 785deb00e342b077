"""Natural batching: while one call of a service runs in its thread, the requests that arrive become the next call.

Idle, a request starts at once (those of the same turn of the loop go together); loaded, batches grow to what arrives
during one call and a short pause after it, up to `most`. One dedicated thread per batcher, so it keeps its Django
connection and its prepared statements. Past `bound` waiting items the caller hears 503 with Retry-After: never a silent
pile.

Faults: a batch that fails for one item's content is run item by item, so only that item fails (the transaction of the
batch was rolled back). A deadlock or serialization failure is repeated once. A lost connection is closed and answered
with 503: whether a commit got through is unknown, and agents repeat their calls safely (token, claim_id).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from dispatch.errors import Unavailable

Q = TypeVar("Q")
A = TypeVar("A")

GATHER = 0.5  # of the last call's duration: how long a loaded batcher lets calls gather before the next one
GATHER_MOST_S = 0.004
IDLE_CHECK_S = 1.0  # a connection unused for longer is looked at before it is trusted

Waiting = tuple[Q, asyncio.Future[A]]


class Batcher(Generic[Q, A]):
    """Turns single awaits into calls of `run(items) -> results`, a result may be an exception instance."""

    def __init__(
        self,
        name: str,
        run: Callable[[list[Q]], Sequence[A | Exception]],
        *,
        most: int = 256,
        bound: int = 4096,
        weigh: Callable[[Q], int] | None = None,
        most_weight: int = 0,
    ) -> None:
        """`most` items a batch; with `weigh`, also no more than `most_weight` together (one item is always taken)."""
        self.name = name
        self._run = run
        self._most = most
        self._bound = bound
        self._weigh = weigh
        self._most_weight = most_weight
        self._waiting: deque[Waiting[Q, A]] = deque()
        self._busy = False
        self._closed = False
        self._used = 0.0
        self._ended = 0.0  # when the last call ended, and how long it took
        self._took = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"hot-{name}")

    async def __call__(self, item: Q) -> A:
        """The result of one item; raises the error that stands for it."""
        if self._closed or len(self._waiting) >= self._bound:
            raise Unavailable("Too many calls are waiting; try again.", retry_after_s=1)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._waiting.append((item, future))
        if not self._busy:
            self._busy = True
            self._next(loop)
        return await future

    def close(self) -> None:
        """Finish what runs and end the thread; once is enough."""
        if self._closed:
            return
        self._closed = True
        self._thread.submit(lambda: connection.close())  # the connection of that thread, not of this one
        self._thread.shutdown(wait=True)

    # In the loop

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next batch: at once when the last one is long over, else when a few more calls may have come."""
        wait = self._ended + min(GATHER_MOST_S, GATHER * self._took) - loop.time()
        if wait > 0 and len(self._waiting) < self._most:
            loop.call_later(wait, self._start, loop)
        else:
            loop.call_soon(self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._take()
        self._began = loop.time()
        work = loop.run_in_executor(self._thread, self._work, [item for item, _ in batch])
        work.add_done_callback(lambda done: self._hand_out(loop, batch, done))

    def _take(self) -> list[Waiting[Q, A]]:
        batch: list[Waiting[Q, A]] = []
        weight = 0
        while self._waiting and len(batch) < self._most:
            if self._weigh:
                weight += self._weigh(self._waiting[0][0])
                if batch and weight > self._most_weight:
                    break
            batch.append(self._waiting.popleft())
        return batch

    def _hand_out(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[Waiting[Q, A]],
        done: asyncio.Future[Sequence[A | Exception]],
    ) -> None:
        self._ended = loop.time()
        self._took = self._ended - self._began
        results: Sequence[A | Exception]
        if done.cancelled():
            results = [Unavailable("The server is stopping.")] * len(batch)
        elif (error := done.exception()) is not None:
            results = [error if isinstance(error, Exception) else Unavailable()] * len(batch)
        else:
            results = done.result()
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # its client has gone
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._waiting:
            self._next(loop)
        else:
            self._busy = False

    # In the thread

    def _work(self, items: list[Q]) -> Sequence[A | Exception]:
        now = time.monotonic()
        if now - self._used > IDLE_CHECK_S and connection.connection is not None and not connection.is_usable():
            connection.close()
        try:
            return self._attempt(items)
        finally:
            self._used = time.monotonic()

    def _attempt(self, items: list[Q]) -> Sequence[A | Exception]:
        try:
            return self._repeat(items)
        except (OperationalError, InterfaceError):
            connection.close()
            raise
        except Exception:
            if len(items) == 1:
                raise
            return [self._alone(item) for item in items]

    def _alone(self, item: Q) -> A | Exception:
        try:
            return self._repeat([item])[0]
        except Exception as error:
            return error

    def _repeat(self, items: list[Q]) -> Sequence[A | Exception]:
        try:
            return self._run(items)
        except DatabaseError as error:
            if not _rolled_back(error):
                raise
            return self._run(items)


def _rolled_back(error: DatabaseError) -> bool:
    """Deadlock or serialization failure: the database says that nothing happened."""
    return str(getattr(error.__cause__, "sqlstate", "") or "").startswith("40")
