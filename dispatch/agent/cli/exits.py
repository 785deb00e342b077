"""Exit codes, and how an error becomes one sentence that says what to do.

The numbers above 63 are those of sysexits.h, so that a shell script can tell "mend the input" from "try later".
"""

import errno
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from dispatch.agent.errors import AgentError, ApiError, Interrupted, LeaseLost, Unreachable

OK = 0
NO = 1  # it worked, and the answer is no: the awaited task is dead or cancelled, a bulk job was stopped
USAGE = 2  # argparse's own
REFUSED = 65  # EX_DATAERR: the server does not take this input (409, 413, 422)
NOT_FOUND = 66  # EX_NOINPUT: 404, or a file that is not there
UNREACHABLE = 69  # EX_UNAVAILABLE
SOFTWARE = 70  # EX_SOFTWARE: an answer that is not the API's
LATER = 75  # EX_TEMPFAIL: 429, 503, or the wait is over
FORBIDDEN = 77  # EX_NOPERM: 401, 403
SETUP = 78  # EX_CONFIG: no server, no key, an unreadable configuration
INTERRUPTED = 130

BY_STATUS = {401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 429: LATER}
MEND_KEY = "Run `evenflow login` with a key that is valid, or set EVENFLOW_KEY."


class Trouble(AgentError):
    """A command cannot go on; `code` is its exit code."""

    def __init__(self, message: str, code: int, *, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Problem:
    """What is shown of an error."""

    code: int
    slug: str
    sentence: str
    hint: str = ""
    status: int | None = None
    errors: list[Any] = field(default_factory=list)


FAMILY = (AgentError, OSError)


def explain(error: BaseException) -> Problem:
    """The code, the sentence and the hint for an error of FAMILY."""
    if isinstance(error, Trouble):
        return Problem(error.code, "trouble", str(error), error.hint)
    if isinstance(error, ApiError):
        return _refusal(error)
    if isinstance(error, Unreachable):
        return _unreachable(error)
    if isinstance(error, LeaseLost | Interrupted):
        return Problem(NO, "stopped", str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else SETUP
        return Problem(code, "file", f"{where}{error.strerror or error}")
    return Problem(SOFTWARE, "trouble", str(error))


def unreachable(url: str, error: Unreachable) -> Trouble:
    """The same error with the address in it."""
    problem = explain(error)
    return Trouble(f"{url}: {problem.sentence}", problem.code, hint=problem.hint)


def _refusal(error: ApiError) -> Problem:
    code = LATER if error.status >= 500 else BY_STATUS.get(error.status, REFUSED)
    sentence, hint = error.detail, ""
    if error.errors:
        sentence = "; ".join(_field(item) for item in error.errors)
    if error.no_such_address:
        sentence = f"this server does not know that address ({error.status} {error.detail.rstrip('.')})"
        hint = "It may be older than this command, or no Evenflow server at all."
    elif error.status == 401:
        hint = MEND_KEY
    elif error.status == 403:
        hint = "The key lacks a scope for this; `evenflow keys create NAME --scope …` makes one that has it."
    elif error.status == 429:
        after = f" in {error.retry_after_s:g} s" if error.retry_after_s else " later"
        hint = f"Try again{after}, or let `--retry-for 60` do so."
    elif not error.slug:
        sentence = f"the server answered {error.status} {error.detail}"
    return Problem(code, error.slug or str(error.status), sentence, hint, error.status, error.errors)


def _field(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    return f"{item.get('field') or 'body'}: {item.get('message')}"


def _unreachable(error: Unreachable) -> Problem:
    cause = error.__cause__
    if isinstance(cause, ApiError):
        return Problem(LATER, cause.slug or "unavailable", f"the server cannot do it now: {cause.detail}", "Try again.")
    if isinstance(cause, ConnectionRefusedError):
        sentence = "nothing answers there (connection refused)"
        hint = (
            "Is the server running? `python manage.py up` starts one; EVENFLOW_URL or `evenflow login` names another."
        )
    elif isinstance(cause, socket.gaierror):
        sentence, hint = "that name has no address", "Check the host name in EVENFLOW_URL or `evenflow login`."
    elif isinstance(cause, ssl.SSLError):
        sentence = f"no secure connection: {cause.reason or cause}"
        hint = "Is it https at that port? A private authority's certificate goes into SSL_CERT_FILE."
    elif isinstance(cause, TimeoutError):
        sentence, hint = "no answer in time", "Is the address right and the server up? Try again, or with --retry-for."
    elif isinstance(cause, OSError) and cause.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH}:
        sentence, hint = "there is no way to that host", "Check the network and the address."
    else:
        sentence, hint = f"the connection broke: {cause or error}", "Try again."
    return Problem(UNREACHABLE, "unreachable", sentence, hint)
