"""JSON over kept-alive HTTP connections, with retries.

Every call of this API may be repeated safely (Idempotency-Key, claim_id and fencing tokens see to that), so every call
is retried on connection loss, 5xx, 429 and on a 409 that carries Retry-After, with exponential back-off and full
jitter, until `retry_for_s` is over. Thread-safe: each call uses a connection of its own while it lasts.
Limits: no proxies, no redirects.
"""

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from dispatch.agent.errors import ApiError, Interrupted, Unreachable
from dispatch.agent.version import VERSION

FIRST_DELAY = 0.1  # seconds
MAX_DELAY = 5.0  # seconds
MAX_IDLE = 32  # kept-alive connections
BROKEN = (OSError, http.client.HTTPException)


class Transport:
    """Calls to one server with one key. `timeout_s` bounds one try beyond its `wait_s`."""

    def __init__(self, url: str, key: str, *, timeout_s: float = 10.0, retry_for_s: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"url must look like http://host:port, not {url!r}")
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json",
            "User-Agent": f"evenflow-agent/{VERSION}",
        }
        self.timeout_s = timeout_s
        self.retry_for_s = retry_for_s
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._parked: set[http.client.HTTPConnection] = set()
        self._interrupted = threading.Event()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        wait_s: float = 0.0,
        retry_for_s: float | None = None,
        idempotency_key: str | None = None,
        parked: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The decoded answer (None where there is none).

        `wait_s`: how long the server may hold the call; `parked`: interrupt() ends it.
        Raises ApiError for a refusal, Unreachable when the retry time is over, Interrupted after interrupt().
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        sent = {**self._headers, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = "application/json"
        if idempotency_key:
            sent["Idempotency-Key"] = idempotency_key
        end = time.monotonic() + wait_s + (self.retry_for_s if retry_for_s is None else retry_for_s)
        delay = FIRST_DELAY
        while True:
            if parked and self._interrupted.is_set():
                raise Interrupted("the client stops claiming")
            try:
                return self._try(method, path, data, sent, wait_s + self.timeout_s, parked)
            except ApiError as error:
                if not _passing(error):
                    raise
                failure: Exception = error
                least = error.retry_after_s or 0.0
            except BROKEN as error:
                failure, least = error, 0.0
            pause = max(least, random.uniform(0, delay))  # noqa: S311  # spreads a herd, guards no secret
            if time.monotonic() + pause > end:
                if isinstance(failure, ApiError) and failure.status < 500:
                    raise failure
                raise Unreachable(f"{method} {path}: {failure}") from failure
            delay = min(delay * 2, MAX_DELAY)
            if parked:
                self._interrupted.wait(pause)
            else:
                time.sleep(pause)

    def interrupt(self) -> None:
        """End all parked calls now and refuse further ones."""
        self._interrupted.set()
        with self._lock:
            parked = list(self._parked)
        for connection in parked:
            _hang_up(connection)

    def close(self) -> None:
        """Close the kept-alive connections. Calls in progress end by themselves."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _try(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], timeout: float, parked: bool
    ) -> Any:
        connection, reused = self._borrow(timeout)
        try:
            return self._exchange(connection, method, path, data, headers, parked)
        except BROKEN:
            connection.close()
            if not reused or self._interrupted.is_set():
                raise
        except BaseException:
            connection.close()
            raise
        # The server closed a kept-alive connection between two calls: not a failure, a fresh one is tried at once.
        fresh = self._connect(timeout)
        try:
            return self._exchange(fresh, method, path, data, headers, parked)
        except BaseException:
            fresh.close()
            raise

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
        parked: bool,
    ) -> Any:
        if parked:
            with self._lock:
                self._parked.add(connection)
        try:
            connection.request(method, self._prefix + path, data, headers)
            response = connection.getresponse()
            raw = response.read()
        finally:
            if parked:
                with self._lock:
                    self._parked.discard(connection)
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return _decode(response, raw)

    def _borrow(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None or connection.sock is None:
            return self._connect(timeout), False
        connection.timeout = timeout
        connection.sock.settimeout(timeout)
        return connection, True

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _decode(response: http.client.HTTPResponse, raw: bytes) -> Any:
    if 200 <= response.status < 300:
        return json.loads(raw) if raw else None
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    slug = str(problem.get("type", "")).rstrip("/").rsplit("/", 1)[-1]
    detail = str(problem.get("detail") or problem.get("title") or response.reason)
    unknown = response.status == 404 and (not slug or "address" in problem)
    raise ApiError(response.status, slug, detail, problem.get("errors") or (), _seconds(response), unknown)


def _seconds(response: http.client.HTTPResponse) -> float | None:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None


def _passing(error: ApiError) -> bool:
    """Whether the same call may succeed later."""
    return error.status >= 500 or error.status == 429 or (error.status == 409 and error.retry_after_s is not None)


def _hang_up(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
