"""The heartbeat thread: one per client, one call per session for all its leases.

It beats at the interval the server names (a third of the TTL by default, at most half of it), a little earlier by
jitter so that a fleet does not beat in step, and sooner again after a failed call. Only the server's word makes a
lease lost: while it cannot be reached the work goes on, and the next beat that arrives decides.
"""

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dispatch.agent.errors import AgentError, ApiError

if TYPE_CHECKING:
    from dispatch.agent.transport import Transport

log = logging.getLogger("evenflow.agent")

MAX_LEASES = 1000  # in one call
JITTER = 0.2  # of the interval, only ever earlier
AFTER_FAILURE = 0.2  # of the interval until the next try


class Watched(Protocol):
    """What is kept alive: a Job, or whatever else holds a lease."""

    session_id: int
    task_id: int
    token: int
    ttl_s: float
    heartbeat_every_s: float

    @property
    def lost(self) -> Any:
        """True once the lease is lost."""

    def take_progress(self) -> dict[str, Any]:
        """The report that travels with this beat; empty for none."""

    def keep_progress(self, report: dict[str, Any]) -> None:
        """The beat with this report did not arrive."""

    def hear(self, directive: str) -> None:
        """The lease goes on: continue, yield or cancel."""

    def hear_lost(self) -> None:
        """The lease is lost."""


W = TypeVar("W", bound=Watched)


class Heartbeats(Generic[W]):
    """Keeps the leases of the watched jobs alive from a daemon thread that lives while there are any."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport
        self._wake = threading.Condition()
        self._jobs: dict[int, W] = {}  # by task: of two leases of one task the older is lost
        self._due: dict[int, float] = {}  # session → monotonic time of its next beat
        self._every: dict[int, float] = {}  # session → seconds between beats
        self._thread: threading.Thread | None = None
        self._sending = threading.Lock()
        self.draining = threading.Event()

    def watch(self, job: W) -> None:
        """Keep this lease alive from now on."""
        with self._wake:
            older = self._jobs.get(job.task_id)
            if older is not None and older.token != job.token:
                older.hear_lost()
            self._jobs[job.task_id] = job
            every = self._every.setdefault(job.session_id, job.heartbeat_every_s)
            self._due.setdefault(job.session_id, time.monotonic() + _early(every))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="evenflow-heartbeats", daemon=True)
                self._thread.start()
            self._wake.notify()

    def forget(self, job: W) -> None:
        """This lease has ended, or is left to expire."""
        with self._wake:
            if self._jobs.get(job.task_id) is job:
                del self._jobs[job.task_id]

    def jobs(self) -> list[W]:
        """The jobs whose leases are kept alive now."""
        with self._wake:
            return list(self._jobs.values())

    def beat(self, job: W) -> None:
        """Beat for one job at once, in the caller's thread. Raises Unreachable, ApiError."""
        self._send(job.session_id, [job])

    def _run(self) -> None:
        while True:
            with self._wake:
                sessions = {job.session_id for job in self._jobs.values()}
                for session in set(self._due) - sessions:
                    self._due.pop(session)
                    self._every.pop(session, None)
                if not sessions:
                    self._thread = None
                    return
                session = min(sessions, key=lambda each: self._due[each])
                wait = self._due[session] - time.monotonic()
                if wait > 0:
                    self._wake.wait(wait)
                    continue
                jobs = [job for job in self._jobs.values() if job.session_id == session]
                every = self._every[session]
                self._due[session] = time.monotonic() + _early(every)
            try:
                self._beat_session(session, jobs)
            except Exception as error:  # the thread must outlive any single failure: leases hang on it
                log.warning("heartbeat failed, trying again: %s", error)
                with self._wake:
                    if session in self._due:
                        self._due[session] = time.monotonic() + _early(every * AFTER_FAILURE)

    def _beat_session(self, session: int, jobs: list[W]) -> None:
        for start in range(0, len(jobs), MAX_LEASES):
            batch = jobs[start : start + MAX_LEASES]
            try:
                self._send(session, batch)
            except ApiError as error:
                if error.status != 404:
                    raise
                log.warning("session %s has ended", session)
                for job in batch:
                    self._lose(job)

    def _send(self, session: int, jobs: list[W]) -> None:
        with self._sending:  # in order: progress of a later call never overtakes an earlier one's
            taken = [(job, job.take_progress()) for job in jobs]
            leases = [
                {"task_id": job.task_id, "token": job.token, **({"progress": report} if report else {})}
                for job, report in taken
            ]
            body = {"session_id": session, "leases": leases}
            try:
                answer = self._transport.call("POST", "/api/v1/heartbeats", body, retry_for_s=0.0)
            except AgentError as error:
                refused = isinstance(error, ApiError) and error.status == 422
                for job, report in taken:
                    if not refused:  # a report the server cannot read would be refused for ever
                        job.keep_progress(report)
                raise
        self._hear(session, jobs, answer)

    def _hear(self, session: int, jobs: list[W], answer: dict[str, Any]) -> None:
        every = answer.get("heartbeat_every_s")
        if every:
            with self._wake:
                if session in self._every:
                    self._every[session] = min(float(every), min(job.ttl_s for job in jobs) / 2)
        if answer.get("worker_directive") == "drain":
            self.draining.set()
        else:
            self.draining.clear()
        by_task = {job.task_id: job for job in jobs}
        for item in answer.get("leases", ()):
            job = by_task.get(item["task_id"])
            if job is None:
                continue
            if item["status"] == "lost":
                self._lose(job)
            else:
                job.hear(item.get("directive") or "continue")

    def _lose(self, job: W) -> None:
        job.hear_lost()
        if job.lost:
            log.warning("task %s: the lease is lost", job.task_id)
            self.forget(job)


def _early(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1)  # noqa: S311  # spreads a herd, guards no secret
