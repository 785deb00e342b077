"""The ASGI side of MCP: which requests are meant, whose they are, and whether their client is still there.

Stateless: each POST is one whole exchange, so any number of web processes may serve one client. A browser cannot come
in through a rebound name: nothing is answered without a key.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from dispatch.conf import limits
from dispatch.mcp.inside import Api, Refusal

if TYPE_CHECKING:
    from dispatch.mcp.server import Servers

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/mcp"
API = "evenflow.mcp"  #: key of the request's scope under which a tool finds the API


class Door:
    """The ASGI callable in front of `app`."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._servers: Servers | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        if scope["type"] == "http" and scope["path"].rstrip("/") == PATH:
            await self._serve(scope, receive, send)
            return
        await self.app(scope, receive, send)
        if scope["type"] == "lifespan" and self._servers is not None:
            await self._servers.stop()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await _answer(send, 405, b"", (b"allow", b"POST"))
            return
        body = await _body(receive)
        if body is None:
            return
        if len(body) > limits().body_bytes:
            await _answer(send, 413, b"")
            return
        gone = asyncio.Event()
        api = Api(self.app, scope, gone)
        try:
            scopes = frozenset((await api.get("/me"))["scopes"])
        except Refusal as refusal:
            challenge = (b"www-authenticate", b'Bearer realm="evenflow"')
            await _answer(send, refusal.status, refusal.document, (b"content-type", refusal.kind), challenge)
            return
        watch = asyncio.ensure_future(_watch(receive, gone))
        try:
            server = await self._loaded().of(scopes)
            await server({**scope, "path": PATH, API: api}, _replay(body, gone), send)
        finally:
            gone.set()
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    def _loaded(self) -> "Servers":
        if self._servers is None:
            from dispatch.mcp.server import Servers  # the SDK takes a while to load: with the first call only

            self._servers = Servers()
        return self._servers


async def _body(receive: Receive) -> bytes | None:
    """The whole body, cut just above its limit; None when the client has left."""
    body, most = b"", limits().body_bytes
    while len(body) <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    """Notice that the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _replay(body: bytes, gone: asyncio.Event) -> Receive:
    """The request again for whoever reads it next."""
    inbox = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        if inbox:
            return inbox.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
