"""Forms that act once: a press, a double press, a reload and a way back bring the answer of the first press.

The form carries a token that was made with the page; `run` keeps where the first press led to for 24 h
(services/idempotency.py) and leads all later ones there.
"""

import hashlib
import uuid
from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dispatch import errors
from dispatch.live import snapshots
from dispatch.services import idempotency
from dispatch.ui import pages

FIELD = "once"


def token() -> str:
    """A new token for one form of one page."""
    return uuid.uuid4().hex


def run(
    request: HttpRequest,
    act: Callable[[], tuple[str, str]],
    back: str,
    invalid: Callable[[errors.Invalid], HttpResponse] | None = None,
) -> HttpResponse:
    """Run `act` (its address and sentence) for the first press of this form; a refusal leads `back` with its words.

    `invalid` shows the form again with what was typed, where values are refused.
    """
    caller, key = pages.caller(request), request.POST.get(FIELD, "")[:64]
    if not key:
        return _told(request, back, "The form was not complete. Nothing was done.", bad=True)
    fields = [(name, values) for name, values in sorted(request.POST.lists()) if name != "csrfmiddlewaretoken"]
    body = hashlib.sha256(repr(fields).encode()).digest()
    try:
        first = idempotency.begin(caller, request.path, key, body)
        if first is not None:
            return _told(request, first[1]["to"], "This was done already; here is what came of it.")
        try:
            place, text = act()
        except BaseException:
            idempotency.abandon(caller, request.path, key)
            raise
        snapshots.expire()
        idempotency.finish(caller, request.path, key, 303, {"to": place})
    except errors.KeyReused:
        return _told(request, back, "This form was sent before with other values. Nothing more was done.", bad=True)
    except errors.EvenflowError as error:
        if invalid and isinstance(error, errors.Invalid):
            return invalid(error)
        return _told(request, back, refusal(error), bad=True)
    return _told(request, place, text)


def refusal(error: errors.EvenflowError) -> str:
    """The refusal in one line, with the fields it names."""
    named = [f"{one['field'].removeprefix('filter.')}: {one['message']}" for one in getattr(error, "errors", [])]
    return "; ".join(named) or error.detail


def _told(request: HttpRequest, place: str, text: str, *, bad: bool = False) -> HttpResponse:
    if text:
        messages.add_message(request, messages.ERROR if bad else messages.SUCCESS, text)
    return redirect(place)
