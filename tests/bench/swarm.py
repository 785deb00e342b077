"""Cheap agents for benchmarks: raw keep-alive sockets in one epoll loop, so that the server is what is measured.

`python -m tests.bench.swarm` reads one JSON job from stdin and prints one JSON answer. A job: `{"url", "key", "kind",
…}` with the kinds of KINDS below. An agent is a generator that yields `(method, path, body)` and is sent
`(status, answer)`; about 25 µs of processor a call.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Generator, Iterable
from typing import Any
from urllib.parse import urlsplit

import orjson

Ask = tuple[str, str, Any]
Agent = Generator[Ask, tuple[int, Any], None]


class Line:
    """One connection with the agent that uses it."""

    def __init__(self, host: str, port: int, head: bytes, agent: Agent) -> None:
        self.sock = socket.create_connection((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = head
        self.agent = agent
        self.buffer = b""

    def send(self, ask: Ask) -> None:
        """Write one request."""
        method, path, value = ask
        body = value if isinstance(value, bytes) else orjson.dumps(value) if value is not None else b""
        line = f"{method} {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\n".encode()
        self.sock.sendall(line + self.head + body)

    def receive(self) -> tuple[int, Any] | None:
        """What has come, if it is a whole answer."""
        got = self.sock.recv(1 << 18)
        if not got:
            raise ConnectionError("the server hung up")
        self.buffer += got
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return None
        body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
        return int(head[9:12]), orjson.loads(body) if body else None


def run(url: str, key: str, agents: Iterable[Agent]) -> None:
    """Drive the agents, each on its own connection, until all have ended."""
    where = urlsplit(url)
    host, port = where.hostname or "127.0.0.1", where.port or 80
    head = f"host: {host}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\r\n".encode()
    poll = select.epoll()
    lines: dict[int, Line] = {}
    for agent in agents:
        line = Line(host, port, head, agent)
        lines[line.sock.fileno()] = line
        poll.register(line.sock.fileno(), select.EPOLLIN)
        line.send(next(agent))
    while lines:
        for fd, _ in poll.poll():
            line = lines[fd]
            answer = line.receive()
            if answer is None:
                continue
            try:
                line.send(line.agent.send(answer))
            except StopIteration:
                poll.unregister(fd)
                lines.pop(fd).sock.close()


class Book:
    """What the agents of one process did."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.at: list[float] = []
        self.first: dict[int, tuple[float, int]] = {}  # tenant → when its last task so far started, how many started
        self.refused: dict[str, int] = {}

    def started(self, leases: list[dict[str, Any]]) -> None:
        """Leases that came into an agent's hands."""
        now = time.monotonic()
        for lease in leases:
            self.first[lease["tenant"]] = (now, self.first.get(lease["tenant"], (0.0, 0))[1] + 1)

    def ended(self, task_ids: list[int]) -> None:
        """Completions that were accepted."""
        now = time.monotonic()
        self.done += task_ids
        self.at += [now] * len(task_ids)

    def problem(self, status: int, answer: Any) -> None:
        """An answer that is none of the good ones."""
        name = f"{status} {answer.get('type') if isinstance(answer, dict) else ''}"
        self.refused[name] = self.refused.get(name, 0) + 1


def _claim(session: int, job: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": session, "max": job["k"], "wait_s": job.get("wait_s", 1.0)}


def two_calls(book: Book, session: int, job: dict[str, Any]) -> Agent:
    """Claim, then complete in a call of its own; ends when a claim stays empty."""
    claim = orjson.dumps(_claim(session, job))
    while True:
        status, answer = yield "POST", "/api/v1/claims", claim
        if status != 200:
            book.problem(status, answer)
            continue
        leases = answer["leases"]
        if not leases:
            return
        book.started(leases)
        status, answer = yield _completion(leases, None)
        _note(book, leases, status, answer)


def one_call(book: Book, session: int, job: dict[str, Any]) -> Agent:
    """Complete and claim the next in one call."""
    claim = _claim(session, job)
    leases: list[dict[str, Any]] = []
    while True:
        status, answer = yield ("POST", "/api/v1/claims", claim) if not leases else _completion(leases, claim)
        if leases:
            _note(book, leases, status, answer)
        if status != 200:
            leases = []
            continue
        leases = answer["leases"]
        if not leases:
            return
        book.started(leases)


def _completion(leases: list[dict[str, Any]], claim: dict[str, Any] | None) -> Ask:
    beside = {"claim": claim} if claim else {}
    if len(leases) == 1:
        body = {"token": leases[0]["token"], "result": {"ok": True}, **beside}
        return "POST", f"/api/v1/tasks/{leases[0]['task_id']}/complete", body
    outcomes = [
        {"task_id": x["task_id"], "token": x["token"], "outcome": "complete", "result": {"ok": True}} for x in leases
    ]
    return "POST", "/api/v1/completions", {"outcomes": outcomes, **beside}


def _note(book: Book, leases: list[dict[str, Any]], status: int, answer: Any) -> None:
    if status != 200:
        book.problem(status, answer)
    elif len(leases) == 1:
        book.ended([leases[0]["task_id"]])
    else:
        book.ended([x["task_id"] for x in answer["outcomes"] if x["status"] == "accepted"])


def submit(book: Book, number: int, job: dict[str, Any]) -> Agent:
    """Submit `calls` times `k` tasks; the ids count as done."""
    for n in range(job["calls"]):
        tasks = [
            {
                "tenant": job["tenants"][(number + n + i) % len(job["tenants"])],
                "class": job["classes"][(number + i) % len(job["classes"])],
                "type": "bench",
                "payload": {"seq": n * job["k"] + i, "pad": "x" * 130},
            }
            for i in range(job["k"])
        ]
        status, answer = yield "POST", "/api/v1/tasks", tasks[0] if job["k"] == 1 else {"tasks": tasks}
        if status != 201:
            book.problem(status, answer)
            continue
        book.ended([answer["id"]] if job["k"] == 1 else [x["id"] for x in answer["tasks"]])


KINDS = {"two_calls": two_calls, "one_call": one_call, "submit": submit}


def main() -> None:
    """One job from stdin, one answer to stdout."""
    job = json.loads(sys.stdin.read())
    book = Book()
    make = KINDS[job["kind"]]
    began, used = time.monotonic(), time.process_time()
    run(job["url"], job["key"], [make(book, session, job) for session in job["sessions"]])
    answer = {
        "done": book.done,
        "at": book.at,
        "first": book.first,
        "refused": book.refused,
        "began": began,
        "cpu_s": time.process_time() - used,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
