"""Errors as `application/problem+json` (contract: Conventions): one mapping for ninja, Django and the hot plane."""

import logging
import math
import traceback
from collections.abc import Callable
from typing import Any

import orjson
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import DatabaseError, DataError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from dispatch import errors
from dispatch.conf import limits

log = logging.getLogger("evenflow.api")

CONTENT_TYPE = "application/problem+json"
JSON = "application/json"

Answer = tuple[int, dict[str, str], bytes]  #: status, headers, body


class MethodNotAllowed(errors.EvenflowError):
    """The address exists, this method does not."""

    slug, title, status = "method-not-allowed", "Method not allowed", 405


class Internal(errors.EvenflowError):
    """A fault of ours: logged with its traceback."""

    slug, title, status = "internal", "A fault of ours", 500


BY_STATUS: dict[int, type[errors.EvenflowError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: MethodNotAllowed,
    409: errors.Conflict,
    413: errors.TooLarge,
    429: errors.RateLimited,
    500: Internal,
    503: errors.Unavailable,
}


def pack(value: Any) -> bytes:
    """JSON in UTF-8; times as RFC 3339 UTC (`…Z`)."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)


def answer(status: int, value: Any) -> Answer:
    """A successful answer."""
    return status, {"Content-Type": JSON}, b"" if status == 204 else pack(value)


def of(error: Exception) -> errors.EvenflowError:
    """Any exception as one of the product's errors; those that are nobody's refusal are logged."""
    if isinstance(error, errors.EvenflowError):
        return error
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("The database is away", extra={"action": "database_away"}, exc_info=error)
        return errors.Unavailable("The database is away; try again.", retry_after_s=1)
    if isinstance(error, RequestDataTooBig):
        return errors.TooLarge(f"A body holds at most {limits().body_bytes} bytes.")
    if isinstance(error, DataError):
        log.warning("A value that the database refuses: %s", told(error), extra={"action": "data_error"})
        return errors.Invalid(("body", "holds a value that cannot be stored"))
    if isinstance(error, DatabaseError):
        log.error("Unexpected fault: %s", told(error), extra={"action": "fault"})
    else:
        log.error("Unexpected fault", extra={"action": "fault"}, exc_info=error)
    return Internal("This fault is logged.")


def told(error: Exception) -> str:
    """A database error without its message, which may quote payloads and keys: kind, SQLSTATE, where it was raised."""
    state = getattr(error.__cause__, "sqlstate", None) or "no SQLSTATE"
    places = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} ({state}) at {' < '.join(f'{at.name}:{at.lineno}' for at in reversed(places[-6:]))}"


def problem(error: Exception) -> Answer:
    """The problem document of an exception."""
    refusal = of(error)
    body: dict[str, Any] = {
        "type": refusal.slug,
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
    }
    if isinstance(refusal, errors.Invalid):
        body["errors"] = refusal.errors
    body.update(refusal.extra)
    headers = {"Content-Type": CONTENT_TYPE}
    if refusal.retry_after_s is not None or refusal.status in {429, 503}:
        headers["Retry-After"] = str(max(1, math.ceil(refusal.retry_after_s or 1)))
    if refusal.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="evenflow"'
    try:
        return refusal.status, headers, pack(body)
    except TypeError:  # a lone surrogate quoted in a message
        return refusal.status, headers, pack({**body, "detail": refusal.title, "errors": []})


def response(made: Answer) -> HttpResponse:
    """An answer as Django's response."""
    status, headers, body = made
    return HttpResponse(body, status=status, headers=headers)


@sync_and_async_middleware
def problems_only(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: whatever Django itself refuses below /api/ (404, 405, 400, 413, 500) becomes a problem document."""
    if iscoroutinefunction(get_response):

        async def wait(request: HttpRequest) -> HttpResponse:
            return as_problem(request, await get_response(request))

        return wait

    def middleware(request: HttpRequest) -> HttpResponse:
        return as_problem(request, get_response(request))

    return middleware


def as_problem(request: HttpRequest, given: HttpResponse) -> HttpResponse:
    """Replace Django's own error page below /api/; everything else passes."""
    if given.status_code < 400 or not request.path.startswith("/api/"):
        return given
    if given.headers.get("Content-Type", "").startswith(CONTENT_TYPE):
        return given
    kind = BY_STATUS.get(given.status_code)
    made = response(problem(kind() if kind else errors.Invalid(_bad(request, given.reason_phrase))))
    if allow := given.headers.get("Allow"):
        made["Allow"] = allow
    return made


def _bad(request: HttpRequest, reason: str) -> tuple[str, str]:
    """What Django found bad: mostly the name that the request gives this server."""
    try:
        request.get_host()
    except DisallowedHost:
        return "Host", "is not a name of this server (EVENFLOW_HOSTS lists them)"
    return "body", reason
