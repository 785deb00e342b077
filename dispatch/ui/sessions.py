"""Middleware that remembers when a person's session was last seen, for the list of sessions at /account.

A session is written at most once in SEEN_S seconds by each process; API calls have none.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from allauth.usersessions.models import UserSession
from django.http import HttpRequest, HttpResponse

SEEN_S = 60.0
KEPT = 10_000

_written: OrderedDict[str, float] = OrderedDict()


def seen(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The middleware."""

    def handle(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        key = _key(request)
        if key and time.monotonic() - _written.get(key, float("-inf")) > SEEN_S:
            UserSession.objects.create_from_request(request)
            _written[key] = time.monotonic()
            while len(_written) > KEPT:
                _written.popitem(last=False)
        return response

    return handle


def _key(request: HttpRequest) -> str | None:
    """The session of a signed-in person; only looked at where the view asked who that is."""
    session = getattr(request, "session", None)
    if session is None or not session.accessed or session.is_empty() or not request.user.is_authenticated:
        return None
    return str(session.session_key)
