"""The agents' and submitters' client.

    client = Client("http://127.0.0.1:8000", key, name="indexer-1", capabilities=["code"])
    for job in client.jobs():
        with job:
            job.result = work(job.payload)

Options: `name` (needed to claim), `capabilities`, `slots` (tasks at a time), `pool`, `weight`, `version`, `labels` as
in a registration; `timeout_s` bounds one try of a call, `retry_for_s` all its tries; `sigterm`: the first claim made in
the main thread makes SIGTERM end the program by SystemExit, so that open jobs are released (a handler that is already
set is left alone). The session is opened by the first claim and opened anew when the server has ended it.
Thread-safe. From asyncio: `async with client.aclaim() as job`, and `asyncio.to_thread` for everything that blocks.
Limits: do not use one client on both sides of a fork.
"""

import asyncio
import logging
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Self

from dispatch.agent.errors import AgentError, ApiError, Interrupted, LeaseLost, Unreachable
from dispatch.agent.heartbeats import Heartbeats
from dispatch.agent.job import EXIT_RETRY_S, Job
from dispatch.agent.submitting import Submitting
from dispatch.agent.transport import Transport

log = logging.getLogger("evenflow.agent")

IDLE_PAUSE = 1.0  # seconds between claims that come back empty at once (draining, paused)
OUTAGE_PAUSE = 2.0  # seconds between claims while the server cannot be reached


class Client(Submitting):
    """One API key's view of one server; a worker session once it claims."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        name: str = "",
        capabilities: Sequence[str] = (),
        slots: int = 1,
        pool: str | None = None,
        weight: float | None = None,
        version: str = "",
        labels: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
        retry_for_s: float = 60.0,
        sigterm: bool = True,
    ) -> None:
        super().__init__(Transport(url, key, timeout_s=timeout_s, retry_for_s=retry_for_s))
        self.name = name
        self.slots = slots
        optional = {"pool": pool, "weight": weight, "version": version or None, "labels": labels}
        self._registration = {"name": name, "capabilities": list(capabilities), "slots": slots} | {
            field: value for field, value in optional.items() if value is not None
        }
        self._sigterm = sigterm
        self._lock = threading.Lock()
        self._session: int | None = None
        self.beats: Heartbeats[Job] = Heartbeats(self.transport)

    # Claiming

    def claim(self, wait_s: float = 20.0) -> "Claim":
        """`with client.claim() as job:` gives a Job, or None when nothing came within `wait_s` seconds (0..60)."""
        return Claim(self, wait_s)

    def aclaim(self, wait_s: float = 20.0) -> "Claim":
        """`async with client.aclaim() as job:`, the same without blocking the event loop."""
        return Claim(self, wait_s)

    def claim_many(self, max: int = 1, wait_s: float = 20.0) -> list[Job]:
        """Up to `max` jobs, at least one unless `wait_s` seconds passed. Each is heartbeaten until it has ended.

        Raises ApiError, Unreachable, Interrupted.
        """
        self._catch_sigterm()
        try:
            return self._claim_once(max, wait_s)
        except ApiError as error:
            if error.status != 404:
                raise
            log.info("the session has ended, a new one is opened")
            return self._claim_once(max, wait_s)

    def jobs(self, stop: threading.Event | None = None, wait_s: float = 20.0) -> Iterator[Job]:
        """One job after the other, for ever: through idle times and outages, until `stop` is set or close().

        Use each as `with job:`. Raises ApiError when the key is refused.
        """
        stop = stop or threading.Event()
        while not stop.is_set():
            began = time.monotonic()
            try:
                jobs = self.claim_many(1, wait_s)
            except Interrupted:
                return
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status != 429:
                    raise
                log.warning("no claim was answered, going on trying: %s", error)
                stop.wait(random.uniform(0, OUTAGE_PAUSE))  # noqa: S311  # spreads a herd, guards no secret
                continue
            yield from jobs
            if not jobs and time.monotonic() - began < IDLE_PAUSE:
                stop.wait(random.uniform(IDLE_PAUSE / 2, IDLE_PAUSE))  # noqa: S311

    def new_claim(self, max: int, wait_s: float) -> dict[str, Any]:
        """The body of one claim; its claim_id makes a repeat after a lost answer bring the same leases."""
        return {"session_id": self.session(), "max": max, "wait_s": wait_s, "claim_id": uuid.uuid4().hex}

    def adopt(self, session_id: int, answer: Mapping[str, Any]) -> list[Job]:
        """The jobs of a claim's answer, heartbeaten from now on."""
        jobs = [Job(self, session_id, lease) for lease in answer.get("leases") or ()]
        for job in jobs:
            self.beats.watch(job)
        return jobs

    # The session

    def session(self) -> int:
        """The id of the open session, registering the worker if there is none. Raises ApiError, Unreachable."""
        with self._lock:
            if self._session is None:
                if not self.name:
                    raise AgentError("a client that claims needs a name: Client(url, key, name=…)")
                answer = self.transport.call(
                    "POST", "/api/v1/workers", self._registration, idempotency_key=uuid.uuid4().hex
                )
                self._session = int(answer["session_id"])
            return self._session

    @property
    def draining(self) -> bool:
        """Whether an operator wants this worker to take no further work (as of the last heartbeat)."""
        return self.beats.draining.is_set()

    def stop_claiming(self) -> None:
        """End parked claims now and refuse further ones; jobs in hand go on. For good."""
        self.transport.interrupt()

    def close(self) -> None:
        """Say goodbye: no further claims, leases still in hand go back at once, uncounted."""
        self.stop_claiming()
        with self._lock:
            session, self._session = self._session, None
        jobs = self.beats.jobs()
        if session is not None:
            try:
                self.transport.call("DELETE", f"/api/v1/sessions/{session}", retry_for_s=EXIT_RETRY_S)
            except (ApiError, Unreachable) as error:
                log.warning("session %s could not be closed: %s", session, error)
        for job in jobs:
            job.hear_lost()
            self.beats.forget(job)
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _claim_once(self, max: int, wait_s: float) -> list[Job]:
        claim = self.new_claim(max, wait_s)
        try:
            answer = self.transport.call("POST", "/api/v1/claims", claim, wait_s=wait_s, parked=True)
        except ApiError as error:
            if error.status == 404:
                with self._lock:
                    if self._session == claim["session_id"]:
                        self._session = None
            raise
        except Interrupted:
            self._return_unheard(claim)
            raise
        return self.adopt(claim["session_id"], answer)

    def _return_unheard(self, claim: Mapping[str, Any]) -> None:
        """An answer may have been on its way when the claim was cut: fetch its leases once more and release them."""
        try:
            answer = self.transport.call(
                "POST", "/api/v1/claims", {**claim, "wait_s": 0}, wait_s=0, retry_for_s=EXIT_RETRY_S
            )
            for job in self.adopt(claim["session_id"], answer):
                job.release("the agent stops", retry_for_s=EXIT_RETRY_S)
        except AgentError as error:
            log.info("claim %s could not be looked up again: %s", claim["claim_id"], error)

    def _catch_sigterm(self) -> None:
        if not self._sigterm or threading.current_thread() is not threading.main_thread():
            return
        self._sigterm = False
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _exit)


class Claim:
    """One claim as a context manager, plain or async; its target is a Job or None."""

    def __init__(self, client: Client, wait_s: float) -> None:
        self._client = client
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._abandoned = False

    def __enter__(self) -> Job | None:
        jobs = self._client.claim_many(1, self._wait_s)
        with self._lock:
            self._job = jobs[0] if jobs else None
            abandoned = self._abandoned
        if abandoned and self._job is not None:
            self._job.release("the claim was cancelled", retry_for_s=EXIT_RETRY_S)
        return self._job

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._job is not None and self._job.__exit__(kind, error, trace)

    async def __aenter__(self) -> Job | None:
        try:
            return await asyncio.to_thread(self.__enter__)
        except asyncio.CancelledError:
            with self._lock:  # the thread goes on: what it is given from now on, or was given just now, goes back
                self._abandoned = True
                job = self._job
            if job is not None:
                await asyncio.to_thread(self._release, job)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await asyncio.shield(asyncio.to_thread(self.__exit__, kind, error, trace))

    @staticmethod
    def _release(job: Job) -> None:
        try:
            job.release("the claim was cancelled", retry_for_s=EXIT_RETRY_S)
        except (LeaseLost, AgentError) as error:
            log.warning("task %s: could not be released: %s", job.task_id, error)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
