"""A small control plane for the SDK's tests: speaks the agents' part of the contract on a real loopback socket.

It keeps leases in memory, records every call and can be told to misbehave: answer 503, reset the connection before
or after the work was done, lose a lease, send a directive, end a session.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "ef_test0000_secret"


@dataclass
class Call:
    method: str
    path: str
    key: str | None
    body: Any
    at: float


@dataclass
class Fault:
    """What happens to the next `times` calls of `path`: "reset", "lost" (done, then reset) or a status."""

    path: str
    what: str | int
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Answer(Exception):
    status: int
    body: Any


def problem(status: int, slug: str, detail: str = "", **extra: Any) -> Answer:
    return Answer(status, {"type": slug, "title": slug, "status": status, "detail": detail or slug, **extra})


class ControlPlane:
    """`ttl_s` is what leases get; `beat_s` the interval that answers name."""

    def __init__(self, ttl_s: float = 0.6, beat_s: float | None = None) -> None:
        self.ttl_s, self.beat_s = ttl_s, beat_s or ttl_s / 3
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.waiting: list[dict[str, Any]] = []
        self.leases: dict[int, int] = {}  # task → token
        self.ended: dict[int, tuple[str, Any]] = {}  # token → (verb, body)
        self.claims: dict[str, list[dict[str, Any]]] = {}
        self.directives: dict[int, str] = {}
        self.sessions: set[int] = set()
        self.submitted: dict[str, Any] = {}
        self.checkpoints: list[Any] = []
        self.worker_directive = "continue"
        self.numbers = iter(range(1, 10_000))
        self.lock = threading.RLock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    # What tests say and ask

    def add(self, task_id: int, type: str = "work", payload: Any = None, **more: Any) -> None:
        with self.lock:
            self.waiting.append({"task_id": task_id, "type": type, "payload": payload, **more})

    def lose(self, task_id: int) -> None:
        with self.lock:
            self.leases.pop(task_id)

    def fault(self, path: str, what: str | int, times: int = 1, **headers: str) -> None:
        self.faults.append(Fault(path, what, times, {name.replace("_", "-"): text for name, text in headers.items()}))

    def made(self, path: str) -> list[Call]:
        """Calls whose path ends so."""
        with self.lock:
            return [call for call in self.calls if call.path.split("?")[0].endswith(path)]

    def ends(self) -> list[tuple[str, Any]]:
        with self.lock:
            return list(self.ended.values())

    def until(self, true: Callable[[], Any], seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "did not come to pass"
            time.sleep(0.01)

    def record(self, call: Call) -> Fault | None:
        """Remember a call; the fault it is to suffer."""
        with self.lock:
            self.calls.append(call)
            fault = next((each for each in self.faults if call.path.endswith(each.path)), None)
            if fault:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
            return fault

    # The verbs

    def answer(self, method: str, path: str, key: str | None, body: Any) -> Answer:
        parts = path.split("?")[0].strip("/").split("/")[2:]
        if method == "DELETE" and parts[0] == "sessions":
            return self.goodbye(int(parts[1]))
        if parts == ["workers"]:
            return self.register()
        if parts == ["claims"]:
            return self.claim(body)
        if parts == ["heartbeats"]:
            return self.heartbeat(body)
        if parts == ["tasks"]:
            return self.submit(key, body)
        return self.task_verb(int(parts[1]), parts[2], body)

    def register(self) -> Answer:
        with self.lock:
            session = 100 + next(self.numbers)
            self.sessions.add(session)
        times = {"lease_ttl_s": self.ttl_s, "heartbeat_every_s": self.beat_s, "offer_ttl_s": 5}
        return Answer(201, {"worker_id": 1, "session_id": session, **times})

    def goodbye(self, session: int) -> Answer:
        with self.lock:
            self.sessions.discard(session)
            self.leases.clear()
        return Answer(204, None)

    def claim(self, body: Any) -> Answer:
        end = time.monotonic() + body["wait_s"]
        while True:
            with self.lock:
                if body["session_id"] not in self.sessions:
                    raise problem(404, "not-found", "no such session")
                if known := self.claims.get(body["claim_id"]):
                    return Answer(200, {"leases": known, "idle_reason": None, "worker_directive": "continue"})
                if self.waiting:
                    return self.deliver(body)
            if time.monotonic() >= end:
                return Answer(200, {"leases": [], "idle_reason": "no_work", "worker_directive": "continue"})
            time.sleep(0.01)

    def deliver(self, body: Any) -> Answer:
        given, self.waiting = self.waiting[: body["max"]], self.waiting[body["max"] :]
        leases = []
        for task in given:
            token = next(self.numbers)
            self.leases[task["task_id"]] = token
            common = {"token": token, "attempt": 1, "ttl_s": self.ttl_s, "heartbeat_every_s": self.beat_s}
            leases.append({"class": "interactive", "tenant": "sales", "user": "-", **common, **task})
        self.claims[body["claim_id"]] = leases
        return Answer(200, {"leases": leases, "idle_reason": None, "worker_directive": self.worker_directive})

    def heartbeat(self, body: Any) -> Answer:
        with self.lock:
            if body["session_id"] not in self.sessions:
                raise problem(404, "not-found", "no such session")
            answers = []
            for lease in body["leases"]:
                mine = self.leases.get(lease["task_id"]) == lease["token"]
                directive = self.directives.get(lease["task_id"], "continue")
                status = "renewed" if mine else "lost"
                answers.append({"task_id": lease["task_id"], "status": status, "directive": directive})
        directives = {"worker_directive": self.worker_directive, "heartbeat_every_s": self.beat_s}
        return Answer(200, {"leases": answers, **directives})

    def submit(self, key: str | None, body: Any) -> Answer:
        assert key, "the SDK sends an Idempotency-Key"
        with self.lock:
            if key not in self.submitted:
                tasks = body.get("tasks") or [body]
                answers = [{"id": next(self.numbers), "state": "queued", "created": True, "lane": 1} for _ in tasks]
                self.submitted[key] = {"tasks": answers} if "tasks" in body else answers[0]
            return Answer(201, self.submitted[key])

    def task_verb(self, task_id: int, verb: str, body: Any) -> Answer:
        with self.lock:
            token = body["token"]
            if token in self.ended and self.ended[token][0] == verb:
                return Answer(200, {"state": "succeeded"})
            if self.leases.get(task_id) != token:
                raise problem(409, "lease-lost", "another attempt owns this task")
            if verb == "checkpoint":
                self.checkpoints.append(body["checkpoint"])
                return Answer(200, {"state": "leased"})
            if "too large" in json.dumps(body.get("result")):
                raise problem(413, "too-large")
            self.ended[token] = (verb, {"task_id": task_id, **body})
            del self.leases[task_id]
        answer = {"state": {"complete": "succeeded"}.get(verb, "queued")}
        if "claim" in body:
            answer |= self.claim(body["claim"]).body
        return Answer(200, answer)

    # The socket

    def _handler(plane) -> type[BaseHTTPRequestHandler]:  # `self` is the handler below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def serve(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body, key = (json.loads(raw) if raw else None), self.headers.get("Idempotency-Key")
                fault = plane.record(Call(self.command, self.path, key, body, time.monotonic()))
                if fault and fault.what == "reset":
                    return self.reset()
                if fault and isinstance(fault.what, int):
                    return self.write(problem(fault.what, "unavailable"), fault.headers)
                try:
                    if self.headers.get("Authorization") != f"Bearer {KEY}":
                        raise problem(401, "unauthenticated")
                    answer = plane.answer(self.command, self.path, key, body)
                except Answer as refusal:
                    answer = refusal
                if fault and fault.what == "lost":
                    return self.reset()
                return self.write(answer, {})

            do_GET = do_POST = do_PATCH = do_DELETE = serve

            def write(self, answer: Answer, headers: dict[str, str]) -> None:
                data = b"" if answer.body is None else json.dumps(answer.body).encode()
                try:
                    self.send_response(answer.status)
                    for name, text in {**headers, "Content-Length": str(len(data))}.items():
                        self.send_header(name, text)
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def reset(self) -> None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True

        return Handler
