"""A whole agent in a few lines: handlers by task type, run in as many threads as the client has slots.

    runner = Runner(Client(url, key, name="indexer-1", slots=4))

    @runner.task("index_text")
    def index_text(job):
        return {"words": count(job.payload)}

    runner.run()

What a handler returns is the task's result; what it raises fails the task (see TaskError). SIGTERM and Ctrl-C stop
claiming at once, wait `grace_s` seconds for running handlers, then release what is still in hand; a second signal
releases at once. Handlers hear of it by `job.stop`, and `job.check()` then hands their task back.
`runner.task("*")` takes the types that have no handler.
Limits: a thread cannot be killed; a handler that ignores `job.stop` ends with the process, its task released.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dispatch.agent.client import Client
from dispatch.agent.errors import AgentError, ApiError, LeaseLost
from dispatch.agent.job import EXIT_RETRY_S, Job

log = logging.getLogger("evenflow.agent")

POLL_S = 0.1  # how soon a signal is seen
Handler = Callable[[Job], Any]


class Runner:
    """Runs handlers until it is stopped. `wait_s`: how long one claim stays parked."""

    def __init__(self, client: Client, *, grace_s: float = 10.0, wait_s: float = 20.0) -> None:
        self.client = client
        self._grace_s = grace_s
        self._wait_s = wait_s
        self._handlers: dict[str, Handler] = {}
        self._stop = threading.Event()
        self._signals_seen = (
            0  # a plain number: a signal handler must not take the lock of an event its thread waits on
        )
        self._failure: ApiError | None = None

    def task(self, type: str) -> Callable[[Handler], Handler]:
        """Decorator: this function handles tasks of that type ("*": of every other type)."""

        if type in self._handlers:
            raise ValueError(f"{type!r} has a handler already")

        def register(handler: Handler) -> Handler:
            self._handlers[type] = handler
            return handler

        return register

    def run(self) -> None:
        """Work until stop(), SIGTERM or Ctrl-C; then say goodbye. Raises ApiError when the key is refused."""
        threads = [
            threading.Thread(target=self._work, name=f"evenflow-slot-{number}", daemon=True)
            for number in range(self.client.slots)
        ]
        with self._signals():
            for thread in threads:
                thread.start()
            while not self._stopping():
                self._stop.wait(POLL_S)
            self._stop.set()
            self._drain(threads)
            self.client.close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop claiming and let run() return after the running handlers."""
        self._stop.set()

    def _stopping(self) -> bool:
        return self._stop.is_set() or self._signals_seen > 0

    def _drain(self, threads: list[threading.Thread]) -> None:
        self.client.stop_claiming()
        for job in self.client.beats.jobs():
            job.hear_closing()
        end = time.monotonic() + self._grace_s
        while self._signals_seen < 2 and time.monotonic() < end and any(thread.is_alive() for thread in threads):
            time.sleep(POLL_S)
        for job in self.client.beats.jobs():
            try:
                job.release("the agent stops", retry_for_s=EXIT_RETRY_S)
            except AgentError as error:
                log.warning("task %s: could not be released: %s", job.task_id, error)

    def _work(self) -> None:
        try:
            for job in self.client.jobs(self._stop, self._wait_s):
                self._handle(job)
        except ApiError as error:
            self._failure = error
            self._stop.set()

    def _handle(self, job: Job) -> None:
        handler = self._handlers.get(job.type) or self._handlers.get("*")
        try:
            with job:
                if self._stopping():
                    job.release("the agent stops")
                elif handler is None:
                    job.fail(f"this agent has no handler for tasks of type {job.type!r}", type="NoHandler")
                else:
                    job.result = handler(job)
        except LeaseLost:
            log.warning("task %s: dropped, its lease is lost", job.task_id)
        except Exception:  # reported to the server by the block; the slot goes on with the next task
            log.exception("task %s failed", job.task_id)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals_seen += 1
