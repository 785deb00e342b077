"""Policy, agents and bare sessions for the cases.

`prepare()` makes three classes, tenants and short times: lease 2 s, heartbeat 0.5 s. `Fleet` runs real agent processes
(tests/acceptance/program.py) that log each start and end to a file. `Session` speaks the agents' verbs by hand, for
agents that fall silent or call with old tokens.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.harness import ROOT, Product, clean_environment

TTL_S = 2.0
BEAT_S = 0.5
CLASSES = {"critical": 6, "interactive": 3, "background": 1}
TENANTS = ("alpha", "beta", "gamma")


def prepare(product: Product) -> None:
    """The policy of the cases; made once per product."""
    product.patch("pools", "default", lease_ttl_s=TTL_S, heartbeat_every_s=BEAT_S, offer_ttl_s=2)
    for slug, weight in CLASSES.items():
        fields = {"weight": weight, "backoff_s": 0.2, "backoff_max_s": 1}
        product.ok("POST", "/api/v1/classes", {"slug": slug, **fields})
    for slug in TENANTS:
        product.ok("POST", "/api/v1/tenants", {"slug": slug})


def submit(product: Product, *tasks: dict[str, Any]) -> list[int]:
    """Submit tasks (tenant alpha and class interactive unless said otherwise); their ids in order."""
    ids: list[int] = []
    for start in range(0, len(tasks), 1000):
        batch = [
            {"tenant": "alpha", "class": "interactive", "payload": None} | task for task in tasks[start : start + 1000]
        ]
        ids += [item["id"] for item in product.ok("POST", "/api/v1/tasks", {"tasks": batch})["tasks"]]
    return ids


def state(product: Product, task_id: int) -> str:
    return str(product.ok("GET", f"/api/v1/tasks/{task_id}")["state"])


class Session:
    """A worker session by hand: no heartbeats but those that are asked for."""

    def __init__(self, product: Product, name: str, slots: int = 1, capabilities: Sequence[str] = ()) -> None:
        self.product = product
        self.name = name
        spec = {"name": name, "slots": slots, "capabilities": list(capabilities)}
        self.id = product.ok("POST", "/api/v1/workers", spec)["session_id"]

    def claim(self, most: int = 1, wait_s: float = 5.0) -> list[dict[str, Any]]:
        body = {"session_id": self.id, "max": most, "wait_s": wait_s, "claim_id": uuid.uuid4().hex}
        return list(self.product.ok("POST", "/api/v1/claims", body)["leases"])

    def claim_one(self, wait_s: float = 5.0) -> dict[str, Any]:
        (lease,) = self.claim(1, wait_s)
        return lease

    def beat(self, *leases: dict[str, Any]) -> list[dict[str, Any]]:
        body = [{"task_id": lease["task_id"], "token": lease["token"]} for lease in leases]
        answer = self.product.ok("POST", "/api/v1/heartbeats", {"session_id": self.id, "leases": body})
        return list(answer["leases"])

    def end(self, lease: dict[str, Any], verb: str = "complete", **fields: Any) -> tuple[int, Any]:
        return self.product.call(
            "POST", f"/api/v1/tasks/{lease['task_id']}/{verb}", {"token": lease["token"], **fields}
        )

    def complete(self, lease: dict[str, Any], result: Any = None) -> None:
        status, answer = self.end(lease, "complete", result=result)
        assert (status, answer["state"]) == (200, "succeeded")

    def fail(self, lease: dict[str, Any], message: str = "no") -> None:
        status, answer = self.end(lease, "fail", error={"message": message})
        assert status == 200, answer

    def goodbye(self) -> None:
        self.product.ok("DELETE", f"/api/v1/sessions/{self.id}")


@dataclass(frozen=True)
class Event:
    """One line of an agent: what ("start", "end", "lost", "failed"), when (monotonic), which task, token and agent."""

    what: str
    at: float
    task: int
    token: int
    agent: str


class Fleet:
    """Agent processes over the SDK."""

    def __init__(self, product: Product, folder: Path) -> None:
        self.product = product
        self.book = folder / "events"
        self.book.touch()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, slots: int = 1, capabilities: str = "") -> None:
        """Start one agent; a killed one may be started again by the same name."""
        command = [sys.executable, "-m", "tests.acceptance.program", self.product.url, name, str(slots), capabilities]
        env = clean_environment() | {"EVENFLOW_KEY": self.product.admin_key}
        self.processes[name] = subprocess.Popen([*command, str(self.book)], cwd=ROOT, env=env)

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def events(self) -> list[Event]:
        """What the agents did so far, in order of writing."""
        lines = self.book.read_text().splitlines()
        return [Event(**json.loads(line)) for line in lines]

    def stop(self) -> None:
        """SIGTERM to all; asserts that each ends by itself."""
        for process in self.processes.values():
            process.terminate()
        codes = {name: process.wait(20) for name, process in self.processes.items()}
        self.processes.clear()
        assert set(codes.values()) <= {0}, codes

    def kill_all(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@contextmanager
def fleet(product: Product, folder: Path) -> Iterator[Fleet]:
    """Agents that end with the block."""
    made = Fleet(product, folder)
    try:
        yield made
        made.stop()
    finally:
        made.kill_all()


def write_event(book: Path, line: dict[str, Any]) -> None:
    """Append one line in one write: lines of several processes never mix."""
    handle = os.open(book, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)
