"""Whether the client of a request is still there, for views that wait (EVENFLOW_HOT=0).

A view that waits holds a thread, which nobody can cancel when its client hangs up or the server stops; it asks here
instead. Without `watched` around the application (tests, WSGI) nobody ever leaves.
"""

import asyncio
import threading
from typing import Any

from django.http import HttpRequest

KEY = "evenflow.gone"
PATIENCE_S = 5.0  # for a view to notice that its server stops


def watched(app: Any) -> Any:
    """The ASGI application, which remembers for each call that its client has gone or its server stops."""

    async def wrapper(scope: Any, receive: Any, send: Any) -> None:
        gone = threading.Event()

        async def hear() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        # Not cancelled but told: the view's thread and Django's chain around it need the loop to come to their end.
        call = asyncio.ensure_future(app({**scope, KEY: gone}, hear, send))
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            gone.set()
            await asyncio.wait([call], timeout=PATIENCE_S)
            raise
        call.result()

    return wrapper


def is_gone(request: HttpRequest) -> bool:
    """Nobody waits for this answer any more."""
    gone = getattr(request, "scope", {}).get(KEY)
    return gone is not None and gone.is_set()
