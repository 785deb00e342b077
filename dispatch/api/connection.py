"""Whether the client of a request is still there, for views that wait (EVENFLOW_HOT=0).

Django's middleware chain is not asynchronous throughout, so a view that waits is not cancelled when its client hangs up
or the server stops; it asks here instead. Without `watched` around the application (tests, WSGI) nobody ever leaves.
"""

import threading
from typing import Any

from django.http import HttpRequest

KEY = "evenflow.gone"


def watched(app: Any) -> Any:
    """The ASGI application, which remembers for each call that its client has gone or its server stops."""

    async def wrapper(scope: Any, receive: Any, send: Any) -> None:
        gone = threading.Event()

        async def hear() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        try:
            await app({**scope, KEY: gone}, hear, send)
        finally:
            gone.set()

    return wrapper


def is_gone(request: HttpRequest) -> bool:
    """Nobody waits for this answer any more."""
    gone = getattr(request, "scope", {}).get(KEY)
    return gone is not None and gone.is_set()
