"""One bare ASGI application for the agents' verbs; everything else goes to the fallback (Django and Channels).

Order of checks, the same as in ninja: key (401), body (413, 422), query string (422), then the service's own.
A client that hangs up gets no leases. Lifespan is answered where the server has it; daphne has not: it cancels what
runs, and whoever waits then hears 503.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from dispatch.api import parsing, problems
from dispatch.conf import limits
from dispatch.errors import Invalid, TooLarge, Unauthenticated, Unavailable
from dispatch.hot import results
from dispatch.hot.engine import Client, Engine, Gone
from dispatch.hot.verbs import Call, Verb, checked, route

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
STOPPING = Unavailable("The server is stopping; try again.", retry_after_s=1)

App = Callable[[Scope, Receive, Send], Awaitable[None]]


class HotPlane:
    """The ASGI callable."""

    def __init__(self, fallback: App, engine: Engine | None = None) -> None:
        self.fallback = fallback
        self.engine = engine or Engine()

    def close(self) -> None:
        """The server stops: parked calls answer now. Called in the loop, before the connections are closed."""
        self.engine.release()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        self.engine.start()
        found = route(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._pass_on(scope, receive, send)
            return
        try:
            status, headers, body = await self._answer(scope, receive, *found)
        except Gone:
            return
        except asyncio.CancelledError:  # daphne's way of stopping; the connection is still open
            status, headers, body = problems.problem(STOPPING)
        await _send(send, status, headers, body)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To the fallback, after the wait of a call that waits for a task's end."""
        if scope["type"] == "http" and (wanted := results.asked(scope)) is not None:
            try:
                receive = await results.wait(self.engine, _bearer(dict(scope["headers"])), *wanted, receive)
                scope = {**scope, "query_string": b""}
            except Unauthenticated:
                pass  # a person's session, or nobody: Django knows
            except Gone:
                return
            except asyncio.CancelledError:
                await _send(send, *problems.problem(STOPPING))
                return
        await self.fallback(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, verb: Verb, object_id: int) -> problems.Answer:
        headers = dict(scope["headers"])
        try:
            caller = await self.engine.authenticate(_bearer(headers))
            raw = await _body(receive)
            body = None
            if verb.schema is not None:
                body = checked(verb.schema, parsing.json_body(raw, headers.get(b"content-type", b"").decode("latin-1")))
            _check_query(scope["query_string"])
            key = headers.get(b"idempotency-key")
            call = Call(
                caller=caller,
                path=scope["path"],
                id=object_id,
                raw=raw,
                body=body,
                key=None if key is None else key.decode("latin-1"),
                client=Client(receive),
            )
            return await verb.handle(self.engine, call)
        except Gone:
            raise
        except Exception as error:
            return problems.problem(error)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.engine.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _send(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    packed = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    packed.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": packed})
    await send({"type": "http.response.body", "body": body})


def _bearer(headers: dict[bytes, bytes]) -> str:
    kind, _, raw_key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() != "bearer":
        raise Unauthenticated("Send Authorization: Bearer with an API key.")
    return raw_key


async def _body(receive: Receive) -> bytes:
    """The whole body. Raises TooLarge early, Gone when the client hangs up in the middle."""
    chunks, size, most = [], 0, limits().body_bytes
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise TooLarge(f"A body holds at most {most} bytes.")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_query(query: bytes) -> None:
    """None of these calls has parameters in its address."""
    if query:
        names = [name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)]
        if names:
            raise Invalid(*[(parsing.join("", name) or "query", "is not a parameter of this call") for name in names])
