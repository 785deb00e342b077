"""One leased task in an agent's hands.

A Job is a context manager: leaving its block normally completes the task with `job.result`, an exception fails it
(a TaskError says how), KeyboardInterrupt, SystemExit and task cancellation release it. LeaseLost is never swallowed.
Its heartbeats run in a thread of the client from the claim until the job has ended.
Thread-safe: any thread may report progress, and the first end wins.
"""

import logging
import threading
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dispatch.agent.errors import AgentError, ApiError, LeaseLost, Stop, TaskError

if TYPE_CHECKING:
    from dispatch.agent.client import Client

log = logging.getLogger("evenflow.agent")

MAX_TEXT = 60_000  # bytes of message and stack sent: the server's limit for an error is 64 KiB
EXIT_RETRY_S = 5.0  # how long a release on the way out of the process may take


class Signal(threading.Event):
    """An event that is also its own truth value: `if job.lost`, `job.lost.wait(5)`."""

    def __bool__(self) -> bool:
        return self.is_set()


class Job:
    """A task under a lease of ours. Attributes are the fields of the claim answer; `class_` is the task's class.

    `saved`: the last checkpoint of an earlier attempt or None; `journal`: its appended entries.
    `lost`, `cancelled`, `should_yield`: signals from the server; `closing`: this agent is ending; `stop` is set with
    the first of them.
    """

    def __init__(self, client: "Client", session_id: int, lease: Mapping[str, Any]) -> None:
        self._client = client
        self.session_id = session_id
        self.task_id: int = lease["task_id"]
        self.token: int = lease["token"]
        self.attempt: int = lease["attempt"]
        self.type: str = lease.get("type") or ""
        self.payload: Any = lease.get("payload")
        self.class_: str = lease.get("class", "")
        self.tenant: str = lease.get("tenant", "")
        self.user: str = lease.get("user", "")
        self.cost: float | None = lease.get("cost")
        self.priority: int = lease.get("priority", 0)
        self.ttl_s: float = lease["ttl_s"]
        self.heartbeat_every_s: float = lease.get("heartbeat_every_s") or self.ttl_s / 3
        self.progress_timeout_s: float | None = lease.get("progress_timeout_s")
        self.max_runtime_s: float | None = lease.get("max_runtime_s")
        self.deadline: str | None = lease.get("deadline")
        self.saved: Any = lease.get("checkpoint")
        self.journal: list[Any] = list(lease.get("journal") or ())
        self.result: Any = None
        self.state: str | None = None  # the task's state after its end
        self.lost, self.cancelled, self.should_yield = Signal(), Signal(), Signal()
        self.closing, self.stop = Signal(), Signal()
        self._lock = threading.Lock()
        self._ending: str | None = None
        self._progress: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Job task {self.task_id} {self.type!r} attempt {self.attempt}>"

    # Reporting

    def progress(
        self,
        *,
        step: int | None = None,
        fraction: float | None = None,
        note: str | None = None,
        fingerprint: str | None = None,
        cost: float | None = None,
        flush: bool = False,
    ) -> None:
        """Note how far the work is; it travels with the next heartbeat (at once with `flush`).

        `fraction` 0..1; `cost` in the pool's unit so far; `fingerprint`: of what was done, a repeated one is no
        progress. Does not block without `flush`. Raises LeaseLost.
        """
        self._refuse_lost()
        given = {"step": step, "fraction": fraction, "note": note, "fingerprint": fingerprint, "cost": cost}
        with self._lock:
            self._progress.update({name: value for name, value in given.items() if value is not None})
        if flush:
            self._client.beats.beat(self)
            self._refuse_lost()

    def checkpoint(self, data: Any, *, append: bool = False) -> None:
        """Store `data` (any JSON, at most 256 KiB) for the next attempt: as `saved`, or appended to `journal`.

        Raises LeaseLost, ApiError.
        """
        self._refuse_lost()
        self._post("checkpoint", {"checkpoint": data, "append": append})

    def check(self) -> None:
        """Raise LeaseLost or Stop when this work should not go on."""
        self._refuse_lost()
        if self.cancelled:
            raise Stop("cancel")
        if self.should_yield:
            raise Stop("yield")
        if self.closing:
            raise Stop("shutdown")

    # Ends

    def complete(
        self,
        result: Any = None,
        *,
        cost: float | None = None,
        next_wait_s: float | None = None,
    ) -> "Job | None":
        """End the task as succeeded. `cost`: what it took, in the pool's unit (absent: its slot-seconds).

        With `next_wait_s` the same call claims the next job and returns it, or None after so many seconds.
        Raises LeaseLost (nothing was stored), ApiError.
        """
        body: dict[str, Any] = {} if result is None else {"result": result}
        if cost is not None:
            body["cost"] = cost
        if next_wait_s is None:
            self._end("complete", body)
            return None
        claim = self._client.new_claim(1, next_wait_s)
        answer = self._end("complete", {**body, "claim": claim}, wait_s=next_wait_s)
        return next(iter(self._client.adopt(claim["session_id"], answer)), None)

    def fail(
        self,
        message: str,
        *,
        kind: str = "transient",
        type: str | None = None,
        stack: str | None = None,
        retry_after_s: float | None = None,
        tool: str | None = None,
    ) -> None:
        """End this attempt as failed; `kind` as in TaskError, `retry_after_s` a lower bound of the back-off."""
        error = {"message": _cut(message), "kind": kind}
        if type:
            error["type"] = type
        if stack:
            error["stack"] = _cut(stack, tail=True)
        extra = {"retry_after_s": retry_after_s, "tool": tool}
        self._end("fail", {"error": error, **{name: value for name, value in extra.items() if value is not None}})

    def release(self, reason: str = "", *, retry_for_s: float | None = None) -> None:
        """Hand the task back: it is queued again at once, in its old place, and no attempt is counted."""
        self._end("release", {"reason": reason} if reason else {}, retry_for_s=retry_for_s)

    # The block

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return self._leave(error)
        finally:
            self._client.beats.forget(self)

    def _leave(self, error: BaseException | None) -> bool:
        if self._ending:
            return False
        if error is None:
            self._complete_or_fail()
        elif isinstance(error, LeaseLost):
            return False
        elif self.lost:
            raise LeaseLost(f"task {self.task_id}: the lease is lost") from error
        elif isinstance(error, Stop):
            self.release(error.reason, retry_for_s=EXIT_RETRY_S)
            return True
        elif isinstance(error, Exception):
            self._report(error)
        else:
            self._hand_back(type(error).__name__)
        return False

    def _complete_or_fail(self) -> None:
        try:
            self.complete(self.result)
        except LeaseLost:
            raise
        except Exception as error:  # a result that is too large or no JSON: the task must not hang on its lease
            self._report(error)
            raise

    def _report(self, error: Exception) -> None:
        stack = "".join(traceback.format_exception(error))
        given = error if isinstance(error, TaskError) else TaskError(str(error) or type(error).__name__)
        try:
            self.fail(
                str(given),
                kind=given.kind,
                type=type(error).__name__,
                stack=stack,
                retry_after_s=given.retry_after_s,
                tool=given.tool,
            )
        except LeaseLost as lost:
            raise lost from error
        except AgentError as failure:
            log.warning("task %s: its failure could not be reported: %s", self.task_id, failure)

    def _hand_back(self, reason: str) -> None:
        try:
            self.release(reason, retry_for_s=EXIT_RETRY_S)
        except AgentError as failure:
            log.warning("task %s: could not be released: %s", self.task_id, failure)

    # For the heartbeat thread

    def take_progress(self) -> dict[str, Any]:
        """What is to be reported now."""
        with self._lock:
            taken, self._progress = self._progress, {}
        return taken

    def keep_progress(self, taken: Mapping[str, Any]) -> None:
        """The report did not arrive: keep it under what is newer."""
        with self._lock:
            self._progress = {**taken, **self._progress}

    def hear(self, directive: str) -> None:
        """A directive of the server."""
        signal = {"cancel": self.cancelled, "yield": self.should_yield}.get(directive)
        if signal is not None:
            signal.set()
            self.stop.set()

    def hear_closing(self) -> None:
        """This agent is about to end."""
        self.closing.set()
        self.stop.set()

    def hear_lost(self) -> None:
        """The server does not know this lease (any more)."""
        with self._lock:
            if self._ending:
                return  # the end's own answer says how it went
            self.lost.set()
        self.stop.set()

    # Inside

    def _end(self, verb: str, body: dict[str, Any], *, wait_s: float = 0.0, retry_for_s: float | None = None) -> Any:
        with self._lock:
            if self.lost:
                raise LeaseLost(f"task {self.task_id}: the lease is lost")
            if self._ending:
                raise AgentError(f"task {self.task_id}: {verb} after {self._ending}")
            self._ending = verb
        try:
            answer = self._post(verb, body, wait_s=wait_s, retry_for_s=retry_for_s)
        except BaseException:
            self._ending = None  # not ended: heartbeats go on, the caller may try again
            raise
        self.state = answer.get("state")
        self._client.beats.forget(self)
        return answer

    def _post(self, verb: str, body: dict[str, Any], *, wait_s: float = 0.0, retry_for_s: float | None = None) -> Any:
        path = f"/api/v1/tasks/{self.task_id}/{verb}"
        try:
            return self._client.transport.call(
                "POST", path, {"token": self.token, **body}, wait_s=wait_s, retry_for_s=retry_for_s
            )
        except ApiError as error:
            if error.slug != "lease-lost":
                raise
            self.lost.set()
            self.stop.set()
            self._client.beats.forget(self)
            raise LeaseLost(f"task {self.task_id}: {error.detail}") from error

    def _refuse_lost(self) -> None:
        if self.lost:
            raise LeaseLost(f"task {self.task_id}: the lease is lost")


def _cut(text: str, *, tail: bool = False) -> str:
    raw = text.encode(errors="replace")
    half = MAX_TEXT // 2
    if len(raw) <= half:
        return raw.decode()
    return (raw[-half:] if tail else raw[:half]).decode(errors="ignore") + ("" if tail else " [cut]")
