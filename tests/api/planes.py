"""The two doors of the API behind one `call`: ninja through Django's handler, the hot plane as a bare ASGI callable."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.test import Client as DjangoClient

from dispatch.hot.asgi import HotPlane
from dispatch.hot.engine import Engine
from tests.api import document

DROPPED = object()
T = TypeVar("T")


@dataclass
class Reply:
    """What came back; `data` is the parsed body."""

    status: int
    headers: dict[str, str]
    data: Any

    @property
    def fields(self) -> list[str]:
        """The fields named in a 422."""
        return [error["field"] for error in self.data.get("errors", [])]


@dataclass
class Door:
    """One way in. `key` is sent unless another is given (None: none)."""

    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def call(
        self,
        method: str,
        path: str,
        body: Any = DROPPED,
        *,
        raw: bytes | None = None,
        key: Any = DROPPED,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request below /api/v1; `raw` sends bytes as they are."""
        sent = {"content-type": "application/json"} | self.headers | dict(headers or {})
        used = self.key if key is DROPPED else key
        if used is not None:
            sent["authorization"] = f"Bearer {used}"
        data = raw if raw is not None else b"" if body is DROPPED else json.dumps(body).encode()
        status, got, answer = self.send(method, "/api/v1" + path, data, sent)
        got = {name.lower(): value for name, value in got.items()}
        parsed = json.loads(answer) if answer else None
        document.check(method, "/api/v1" + path, status, parsed)
        return Reply(status, got, parsed)

    def close(self) -> None:
        """Nothing is open."""

    def post(self, path: str, body: Any = DROPPED, **options: Any) -> Reply:
        """A POST."""
        return self.call("POST", path, body, **options)

    def get(self, path: str, **options: Any) -> Reply:
        """A GET."""
        return self.call("GET", path, **options)

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Through Django and ninja."""
        client = DjangoClient(raise_request_exception=False)
        kind = headers.pop("content-type", "")
        made = client.generic(method, path, body, content_type=kind, headers=headers)
        return made.status_code, dict(made.headers), made.getvalue()


class HotDoor(Door):
    """The hot plane; what it does not serve goes to ninja, as in the product. Runs a loop in a thread of its own."""

    def __init__(self, key: str | None = None, *, listens: bool = False) -> None:
        super().__init__(key)
        self.engine = Engine(listens=listens)
        self.plane = HotPlane(_not_ours, self.engine)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float = 30) -> T:
        """Run something in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def close(self) -> None:
        """End loop, threads and connections."""
        self.run(self.engine.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Through one ASGI scope."""
        sent = self.run(exchange(self.plane, method, path, body, headers))
        if sent == [NOT_OURS]:
            return super().send(method, path, body, headers)
        start, *chunks = sent
        got = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], got, b"".join(chunk["body"] for chunk in chunks)


NOT_OURS = {"type": "fallback"}


async def _not_ours(scope: Any, receive: Any, send: Any) -> None:
    await send(NOT_OURS)


async def exchange(
    app: Any,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    hang_up: asyncio.Event | None = None,
) -> list[dict[str, Any]]:
    """One request to an ASGI application; the client hangs up when the event is set."""
    sent: list[dict[str, Any]] = []
    inbox = [{"type": "http.request", "body": body, "more_body": False}]
    leaving = hang_up or asyncio.Event()

    async def receive() -> dict[str, Any]:
        if inbox:
            return inbox.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    address, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": address,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)
    return sent
