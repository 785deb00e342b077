"""The services behind the hot plane: one batcher per verb, and the claims that wait.

Everything here runs in the event loop; the services run in the batchers' threads. `Engine.start()` is called with the
first request (daphne has no lifespan): it begins to listen, to poll and to tick the pulse.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from dispatch import events
from dispatch.api import schemas_agents as agents
from dispatch.api import submitting, webpulse, wire
from dispatch.api.problems import Answer
from dispatch.errors import EvenflowError
from dispatch.hot.batcher import Batcher
from dispatch.hot.parking import Parking
from dispatch.services import access, claim, finish, heartbeat, rates, tasks
from dispatch.services import messages as m
from dispatch.store import listen

POLL_S = 1.0  # the poll behind the notifications
LOOK_S = 10.0  # a parked claim looks for itself: its demand may be gone (offer not picked up, database restarted)

Job = Callable[[], Any]
T = TypeVar("T")


class Gone(Exception):
    """The client hung up."""


class Client:
    """The connection of one call. It is watched only while something waits: most calls answer at once."""

    def __init__(self, receive: Callable[[], Awaitable[Any]]) -> None:
        self.gone = False
        self._receive = receive

    @contextmanager
    def watched(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event when the client hangs up."""
        watch = asyncio.ensure_future(self._watch(event))
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self, event: asyncio.Event) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        event.set()


def each(call: Callable[[Any], T]) -> Callable[[list[Any]], Sequence[T | Exception]]:
    """A batch function out of a single one: every item stands for itself."""

    def run(items: list[Any]) -> Sequence[T | Exception]:
        results: list[T | Exception] = []
        for item in items:
            try:
                results.append(call(item))
            except EvenflowError as error:
                results.append(error)
        return results

    return run


class Engine:
    """What a web process needs to serve agents. `listens` False: no notifications and no poll (short tests)."""

    def __init__(self, *, listens: bool = True) -> None:
        self._listens = listens
        self.claim: Batcher[m.ClaimRequest, m.ClaimAnswer] = Batcher("claim", claim.claim_many)
        self.heartbeat: Batcher[m.HeartbeatRequest, m.HeartbeatAnswer] = Batcher(
            "heartbeat", heartbeat.heartbeat_many, most=128
        )
        self.finish: Batcher[m.Finish, m.Finished] = Batcher("finish", finish.finish_many, bound=16_384)
        self.submit: Batcher[submitting.Call, Answer] = Batcher(
            "submit", submitting.submit_many, most=256, bound=4096, weigh=submitting.weight, most_weight=2000
        )
        self.job: Batcher[Job, Any] = Batcher("job", each(lambda job: job()), most=64)
        self.unpark: Batcher[int, None] = Batcher("unpark", _unpark, most=1024, bound=65_536)
        self.parking = Parking()
        self.ends = Parking()  # who waits for the end of which task
        self._tasks: list[asyncio.Task[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    # Life

    def start(self) -> None:
        """Begin the background work in the running loop; once is enough."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop and self._listens:
            self._loop = loop
            webpulse.current.start()
            heard = {
                events.SESSION: lambda payload: self.parking.wake(listen.ids(payload)),
                events.TASK: lambda payload: self.ends.wake(listen.ids(payload)),
            }
            listener = listen.AsyncListener(heard, self._look_again, name="hot")
            self._tasks = [loop.create_task(work) for work in (listener.run(), self._poll(), self._tick())]

    async def stop(self) -> None:
        """Let parked calls answer, finish what runs, end the threads."""
        self.release()
        while self.parking.waited() or self.ends.waited():
            await asyncio.sleep(0.01)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for batcher in (self.claim, self.heartbeat, self.finish, self.submit, self.job, self.unpark):
            await asyncio.to_thread(batcher.close)
        await asyncio.to_thread(webpulse.current.stop)

    def release(self) -> None:
        """The server stops: whoever waits answers now."""
        self.parking.close()
        self.ends.close()

    def _look_again(self) -> None:
        self.parking.wake_all()
        self.ends.wake_all()

    async def _tick(self) -> None:
        """Apart from `_poll`, which waits for the database: the loop turns, whatever that does."""
        while True:
            webpulse.current.tick()
            await asyncio.sleep(POLL_S)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with suppress(Exception):  # a database that is away is tried again in a second
                if waiting := self.parking.waited():
                    self.parking.wake(await self.job(partial(claim.offered, waiting)))
                if waiting := self.ends.waited():
                    self.ends.wake(await self.job(partial(tasks.ended, waiting)))

    # Calls

    async def authenticate(self, raw_key: str) -> m.Caller:
        """The caller of a key: from the cache at once, else looked up. Raises Unauthenticated, RateLimited."""
        found = access.cached(raw_key) or await self.job(lambda: access.authenticate(raw_key))
        rates.spend(found)
        return found

    async def wait_for_leases(self, caller: m.Caller, body: agents.ClaimIn, client: Client) -> m.ClaimAnswer:
        """Claim, and wait while there is nothing; raises Gone when the client hangs up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + body.wait_s
        demand: int | None = None
        with self.parking.place(body.session_id) as event, client.watched(event):
            try:
                while True:
                    event.clear()
                    left = 0.0 if self.parking.closing else max(0.0, until - loop.time())
                    answer = await self.claim(
                        wire.claim_request(caller, body, wait_s=left, process_id=webpulse.current.id, demand_id=demand)
                    )
                    demand = None if answer.leases else answer.demand_id
                    if client.gone:
                        for back in wire.given_back(caller, answer):
                            self._later(self.finish(back))
                        raise Gone
                    if answer.leases:
                        return answer
                    if left <= 0:
                        break
                    await _woken(event, min(left, LOOK_S))
                    if client.gone:
                        raise Gone
            finally:
                if demand is not None:
                    self._later(self.unpark(demand))
        reason, directive = await self.job(lambda: claim.idle_reason(body.session_id))
        return m.ClaimAnswer(leases=[], idle_reason=reason, worker_directive=directive)

    async def wait_for_end(self, caller: m.Caller, task_id: int, seconds: float, client: Client) -> None:
        """Return when the task is final, the time is over or the server stops; at once for a task that is not there or
        not the caller's. Raises Gone when the client hangs up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.ends.place(task_id) as event, client.watched(event):
            while await self.job(partial(tasks.is_open, caller, task_id)):
                left = until - loop.time()
                if left <= 0 or self.ends.closing:
                    return
                await _woken(event, left)
                event.clear()
                if client.gone:
                    raise Gone

    def _later(self, work: Any) -> None:
        """Let it run on its own; a failure costs only time (demand ends by itself, leases expire)."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def _woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most so long; a timer is far cheaper here than a task."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


def _unpark(demand_ids: list[int]) -> Sequence[None]:
    claim.unpark(demand_ids)
    return [None] * len(demand_ids)
