"""The submitters' verbs of the client: submit, look, cancel, requeue.

Every write carries an Idempotency-Key of its own, so that a retry after a lost answer never submits twice.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from dispatch.agent.transport import Transport

MAX_BATCH = 1000  # tasks in one call


@dataclass(frozen=True, slots=True)
class Submitted:
    """The server's answer for one task; `created` is False when its `key` was known already."""

    id: int
    state: str
    created: bool
    lane: int


class Submitting:
    """Calls that need no worker session."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def submit(
        self,
        *,
        tenant: str,
        class_: str,
        payload: Any = None,
        type: str | None = None,
        user: str | None = None,
        pool: str | None = None,
        capabilities: Sequence[str] = (),
        tools: Sequence[str] = (),
        cost: float | None = None,
        priority: int | None = None,
        key: str | None = None,
        run_at: datetime | str | None = None,
        max_attempts: int | None = None,
        max_runtime_s: float | None = None,
        progress_timeout_s: float | None = None,
        deadline: datetime | str | None = None,
        idempotency_key: str | None = None,
    ) -> Submitted:
        """Submit one task. Times are aware datetimes or RFC 3339 strings; `class_` is the field `class`.

        Raises ApiError (422 `validation`, 409 `key-reused`, 429 after the retry time), Unreachable.
        """
        optional = {
            "type": type,
            "user": user,
            "pool": pool,
            "capabilities": list(capabilities) or None,
            "tools": list(tools) or None,
            "cost": cost,
            "priority": priority,
            "key": key,
            "run_at": _moment(run_at),
            "max_attempts": max_attempts,
            "max_runtime_s": max_runtime_s,
            "progress_timeout_s": progress_timeout_s,
            "deadline": _moment(deadline),
        }
        task = {"tenant": tenant, "class": class_, "payload": payload} | {
            field: value for field, value in optional.items() if value is not None
        }
        return _submitted(self._write("/api/v1/tasks", task, idempotency_key))

    def submit_many(self, tasks: Iterable[Mapping[str, Any]]) -> list[Submitted]:
        """Submit tasks given as the API's own objects (`{"tenant": …, "class": …, "payload": …}`), answers in order.

        Each 1000 are one call and one transaction: a bad task refuses its whole call. Raises ApiError, Unreachable.
        """
        rest, answers = iter(tasks), []
        while batch := [dict(task) for task in islice(rest, MAX_BATCH)]:
            answer = self._write("/api/v1/tasks", {"tasks": batch})
            answers += [_submitted(item) for item in answer["tasks"]]
        return answers

    def task(self, task_id: int, *, wait_s: float = 0.0) -> dict[str, Any]:
        """One task as the API shows it; `wait_s` (0..60) waits that long for a final state. Raises ApiError."""
        query = f"?{urlencode({'wait_s': wait_s})}" if wait_s else ""
        return dict(self.transport.call("GET", f"/api/v1/tasks/{task_id}{query}", wait_s=wait_s))

    def tasks(self, **filters: Any) -> dict[str, Any]:
        """One page of tasks: `{"items": […], "next_cursor": …}`; filters as in GET /tasks (`class_` for `class`)."""
        query = {name.rstrip("_"): value for name, value in filters.items() if value is not None}
        return dict(self.transport.call("GET", f"/api/v1/tasks?{urlencode(query)}"))

    def cancel(self, task_id: int, reason: str = "") -> dict[str, Any]:
        """Cancel a task: at once while it waits, by way of its agent while it is leased. Raises ApiError."""
        return dict(self._write(f"/api/v1/tasks/{task_id}/cancel", {"reason": reason} if reason else {}))

    def requeue(self, task_id: int, reason: str = "") -> dict[str, Any]:
        """Give a dead task a fresh life at the back of its lane (scope operate). Raises ApiError."""
        return dict(self._write(f"/api/v1/tasks/{task_id}/requeue", {"reason": reason} if reason else {}))

    def _write(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        return self.transport.call("POST", path, body, idempotency_key=key or uuid.uuid4().hex)


def _submitted(answer: Mapping[str, Any]) -> Submitted:
    return Submitted(answer["id"], answer["state"], answer["created"], answer["lane"])


def _moment(value: datetime | str | None) -> str | None:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone, e.g. datetime.now(UTC)")
    return value.isoformat()
