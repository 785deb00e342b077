"""Cheap agents for benchmarks: raw keep-alive sockets in one epoll loop, so that the server is what is measured.

`python -m tests.bench.swarm` reads one JSON job from stdin and prints one JSON answer. A job: `{"url", "key", "kind",
"sessions", …}` with the kinds of KINDS below; each session is one agent on one connection. An agent is a generator that
yields `(method, path, body)` and is sent `(status, answer)`; about 25 µs of processor a call.
"""

import heapq
import json
import select
import socket
import sys
import time
from collections.abc import Generator, Iterable
from typing import Any
from urllib.parse import urlsplit

import orjson

PAUSE = "pause"  # instead of a method: wait so many seconds (the third part)
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
    timers: list[tuple[float, int]] = []

    def go_on(fd: int, answer: tuple[int, Any] | None) -> None:
        line = lines[fd]
        try:
            ask = next(line.agent) if answer is None else line.agent.send(answer)
        except StopIteration:
            poll.unregister(fd)
            lines.pop(fd).sock.close()
            return
        if ask[0] == PAUSE:
            heapq.heappush(timers, (time.monotonic() + ask[2], fd))
        else:
            line.send(ask)

    for agent in agents:
        line = Line(host, port, head, agent)
        fd = line.sock.fileno()
        lines[fd] = line
        poll.register(fd, select.EPOLLIN)
        go_on(fd, None)
    while lines:
        for fd, _ in poll.poll(max(0.0, timers[0][0] - time.monotonic()) if timers else None):
            answer = lines[fd].receive()
            if answer is not None:
                go_on(fd, answer)
        while timers and timers[0][0] <= time.monotonic():
            go_on(heapq.heappop(timers)[1], None)


class Book:
    """What the agents of one process did."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.at: list[float] = []
        self.first: dict[int, tuple[float, int]] = {}  # tenant → when its last task so far started, how many started
        self.refused: dict[str, int] = {}
        self.waited: list[float] = []  # from before the submit to the agent's hands, of tasks that say when
        self.until = float("inf")  # no new claims after this

    def started(self, leases: list[dict[str, Any]]) -> None:
        """Leases that came into an agent's hands."""
        now = time.monotonic()
        for lease in leases:
            self.first[lease["tenant"]] = (now, self.first.get(lease["tenant"], (0.0, 0))[1] + 1)
            if at := lease["payload"].get("at"):
                self.waited.append(now - at)

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
    """Claim, then complete in a call of its own; ends when `patience` claims in a row stayed empty."""
    claim = orjson.dumps(_claim(session, job))
    patience = job.get("patience", 1)
    while patience and time.monotonic() < book.until:
        status, answer = yield "POST", "/api/v1/claims", claim
        if status != 200:
            book.problem(status, answer)
            continue
        leases = answer["leases"]
        if not leases:
            patience -= 1
            continue
        patience = job.get("patience", 1)
        book.started(leases)
        status, answer = yield _completion(leases, None)
        _note(book, leases, status, answer)


def one_call(book: Book, session: int, job: dict[str, Any]) -> Agent:
    """Complete and claim the next in one call."""
    claim = _claim(session, job)
    leases: list[dict[str, Any]] = []
    while True:
        over = time.monotonic() > book.until
        if leases:
            status, answer = yield _completion(leases, None if over else claim)
            _note(book, leases, status, answer)
        elif over:
            return
        else:
            status, answer = yield "POST", "/api/v1/claims", claim
        found = answer.get("leases", []) if status == 200 else []
        if not found and (status == 200 or over):
            return
        leases = found
        book.started(leases)


def hold(book: Book, session: int, job: dict[str, Any]) -> Agent:
    """Claim until `k` leases are held, then renew them every `beat_s`; never completes. Says when all agents hold."""
    held: list[dict[str, Any]] = []
    while len(held) < job["k"]:
        status, answer = yield "POST", "/api/v1/claims", {"session_id": session, "max": job["k"], "wait_s": 20}
        if status == 200:
            held += [{"task_id": lease["task_id"], "token": lease["token"]} for lease in answer["leases"]]
    book.done += [lease["task_id"] for lease in held]
    if len(book.done) == job["k"] * len(job["sessions"]):
        print(json.dumps({"held": book.done}), flush=True)
    beat = orjson.dumps({"session_id": session, "leases": held})
    while time.monotonic() < book.until:
        yield PAUSE, "", job["beat_s"]
        status, answer = yield "POST", "/api/v1/heartbeats", beat
        renewed = [lease for lease in answer["leases"] if lease["status"] == "renewed"] if status == 200 else []
        book.at += [time.monotonic()] * len(renewed)
        if len(renewed) < len(held):
            book.problem(status, {"type": f"{len(held) - len(renewed)} of {len(held)} lost"})


def park(book: Book, session: int, job: dict[str, Any]) -> Agent:
    """One claim that waits for up to a minute."""
    status, answer = yield "POST", "/api/v1/claims", {"session_id": session, "max": 1, "wait_s": 60}
    if status == 200:
        book.ended([lease["task_id"] for lease in answer["leases"]])
    else:
        book.problem(status, answer)


def pace(book: Book, number: int, job: dict[str, Any]) -> Agent:
    """Submit one task at a time, `rate` a second; each says when."""
    due = time.monotonic()
    for n in range(job["calls"]):
        due += 1 / job["rate"]
        yield PAUSE, "", max(0.0, due - time.monotonic())
        task = {"tenant": job["tenants"][n % len(job["tenants"])], "class": job["classes"][0], "type": "bench"}
        status, answer = yield "POST", "/api/v1/tasks", {**task, "payload": {"at": time.monotonic()}}
        if status == 201:
            book.ended([answer["id"]])
        else:
            book.problem(status, answer)


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


def join(book: Book, number: int, job: dict[str, Any]) -> Agent:
    """Register one worker; the session counts as done."""
    worker = {"name": f"w{number}", "capabilities": [], "slots": job["slots"]}
    _, answer = yield "POST", "/api/v1/workers", worker
    book.done.append(answer["session_id"])


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


KINDS = {
    "two_calls": two_calls,
    "one_call": one_call,
    "hold": hold,
    "join": join,
    "park": park,
    "pace": pace,
    "submit": submit,
}


def main() -> None:
    """One job from stdin, one answer to stdout."""
    job = json.loads(sys.stdin.read())
    book = Book()
    make = KINDS[job["kind"]]
    if "limit_s" in job:
        book.until = time.monotonic() + job["limit_s"]
    began, used = time.monotonic(), time.process_time()
    run(job["url"], job["key"], [make(book, session, job) for session in job["sessions"]])
    answer = {
        "done": book.done,
        "at": book.at,
        "first": book.first,
        "refused": book.refused,
        "waited": book.waited,
        "began": began,
        "cpu_s": time.process_time() - used,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
