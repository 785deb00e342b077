"""The id of the request that is being served: for log lines, the audit and the answer's header X-Request-ID."""

import re
import uuid
from contextvars import ContextVar

_GIVEN = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_request: ContextVar[str] = ContextVar("request", default="")


def begin(given: str | None) -> str:
    """Use the id that the caller sent, when it is a plain one, else make one."""
    found = given if given and _GIVEN.fullmatch(given) else uuid.uuid4().hex
    _request.set(found)
    return found


def request_id() -> str:
    """The id of this request; empty outside of one."""
    return _request.get()
