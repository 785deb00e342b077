"""The JSON API from inside: a call goes through the same ASGI application, with the key of the one who asked.

So each tool has the API's validation, permissions, long polls and errors, and no second way into the services exists.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlencode

KEPT = frozenset({b"authorization", b"host", b"x-forwarded-proto", b"x-forwarded-for"})

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Refusal(Exception):
    """A problem document of the API; the message is what a model is told."""

    def __init__(self, status: int, document: bytes, kind: bytes) -> None:
        self.status = status
        self.document = document
        self.kind = kind
        try:
            found = json.loads(document)
            self.slug, detail = str(found["type"]), str(found["detail"])
        except (ValueError, KeyError, TypeError):
            self.slug, detail = "unavailable", "The answer was no problem document."
        super().__init__(f"{self.slug}: {detail}")


class Api:
    """Calls below /api/v1 on behalf of one request; `gone` says that its client has left."""

    def __init__(self, app: App, scope: MutableMapping[str, Any], gone: asyncio.Event) -> None:
        self._app = app
        self._scope = scope
        self._gone = gone

    @property
    def identity(self) -> bytes:
        """What tells one key from another; never shown."""
        return next((value for name, value in self._scope["headers"] if name == b"authorization"), b"")

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The answer of a GET; parameters that are None are left out. Raises Refusal."""
        return await self._call("GET", path, query, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer of a POST. Raises Refusal."""
        return await self._call("POST", path, None, json.dumps(body).encode())

    async def _call(self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None) -> Any:
        told = [(name, value) for name, value in (query or {}).items() if value is not None]
        scope = {
            **{name: self._scope[name] for name in ("asgi", "scheme", "server", "client") if name in self._scope},
            "type": "http",
            "http_version": "1.1",
            "root_path": "",
            "method": method,
            "path": f"/api/v1{path}",
            "raw_path": f"/api/v1{path}".encode(),
            "query_string": urlencode(told).encode(),
            "headers": [pair for pair in self._scope["headers"] if pair[0] in KEPT]
            + [(b"content-type", b"application/json"), (b"content-length", str(len(body or b"")).encode())],
        }
        inbox = [{"type": "http.request", "body": body or b"", "more_body": False}]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if inbox:
                return inbox.pop()
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        if not sent:
            raise Refusal(503, b"", b"text/plain")  # the client has left; nobody hears this
        status, answer = sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
        if status >= 300:
            raise Refusal(status, answer, dict(sent[0]["headers"]).get(b"content-type", b"application/problem+json"))
        return json.loads(answer) if answer else None
