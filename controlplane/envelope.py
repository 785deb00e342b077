"""What every HTTP answer carries, whichever plane made it: a request id and the security headers.

`Envelope` wraps the whole ASGI application. The id is the client's, or made here (services/context.py); what is inside
finds it in the request's headers. Headers that an application set itself stay as they are.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

from dispatch.services import context

HEADER = b"x-request-id"
Headers = tuple[tuple[bytes, bytes], ...]

ALWAYS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
NO_STORE = (b"cache-control", b"no-store")  # answers of API and tools belong to one key

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Envelope:
    """The ASGI callable."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.always: Headers = ALWAYS
        if settings.SECURE_HSTS_SECONDS:
            value = f"max-age={settings.SECURE_HSTS_SECONDS}; includeSubDomains; preload".encode()
            self.always = (*ALWAYS, (b"strict-transport-security", value))

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve one scope; only HTTP answers are changed."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        named = (HEADER, context.begin(given.decode("latin-1")).encode())
        others = [one for one in scope["headers"] if one[0] != HEADER]
        wanted: Headers = (*self.always, named)
        if scope["path"].startswith(("/api/", "/mcp")):
            wanted = (*wanted, NO_STORE)

        async def sealed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                there = {bytes(name).lower() for name, _ in headers}
                message = {**message, "headers": [*headers, *(one for one in wanted if one[0] not in there)]}
            await send(message)

        await self.app({**scope, "headers": [*others, named]}, receive, sealed)
