"""What the SDK raises. Everything derives from AgentError; nothing here is raised for a retryable hiccup."""

from collections.abc import Mapping, Sequence
from typing import Any


class AgentError(Exception):
    """Base of all errors of this package."""


class Unreachable(AgentError):
    """No usable answer within the retry time: connection refused or lost, or the server kept saying 5xx or 429."""


class Interrupted(AgentError):
    """A parked claim was given up because the client stops claiming."""


class ApiError(AgentError):
    """A refusal by the server (application/problem+json).

    `slug`: the stable word, e.g. "validation"; `errors`: [{"field", "message"}] for 422;
    `retry_after_s`: seconds, where the server named them; `no_such_address`: it is the address that is not there.
    """

    def __init__(
        self,
        status: int,
        slug: str = "",
        detail: str = "",
        errors: Sequence[Mapping[str, Any]] = (),
        retry_after_s: float | None = None,
        no_such_address: bool = False,
    ) -> None:
        fields = "; ".join(f"{item.get('field')}: {item.get('message')}" for item in errors)
        super().__init__(f"{status} {slug}: {fields or detail}")
        self.status = status
        self.slug = slug
        self.detail = detail
        self.errors = list(errors)
        self.retry_after_s = retry_after_s
        self.no_such_address = no_such_address


class LeaseLost(AgentError):
    """The task is no longer this agent's: stop working on it, its result would not be accepted."""


class Stop(AgentError):
    """Raised by Job.check() when the work should not go on; a with-block answers it by releasing the task.

    `reason`: "cancel" (the task was cancelled), "yield" (its slot is wanted elsewhere) or "shutdown" (of this agent).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TaskError(AgentError):
    """Raise it inside a with-block or handler to fail the task in a chosen way.

    `kind`: "transient" (retry), "permanent" (dead at once) or "tool_limited" (wait `retry_after_s`, uncounted);
    `tool`: the tool to cool down for the whole fleet.
    """

    def __init__(
        self, message: str, *, kind: str = "transient", retry_after_s: float | None = None, tool: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.tool = tool
