"""The real product for benchmarks over HTTP: started, seeded, loaded by swarms, and its processor time by process."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from dispatch.store.embedded import socket_dir
from tests.acceptance import harness

TENANTS = [f"t{n}" for n in range(10)]
CLASSES = ["critical", "background"]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Ran:
    """What the swarms of one run did, together; times are of the machine's monotonic clock."""

    done: list[int]
    at: list[float]
    first: dict[str, tuple[float, int]]
    refused: dict[str, int]
    began: float
    load_cpu_s: float
    waited: list[float]

    @property
    def rate(self) -> float:
        """Per second, over the middle 10 to 90 % of the accepted ones."""
        at = sorted(self.at)
        low, high = int(len(at) * 0.1), int(len(at) * 0.9) - 1
        return (high - low) / max(1e-9, at[high] - at[low])


class Floor:
    """A running product with tenants, classes, a key and sessions."""

    def __init__(self, product: harness.Product) -> None:
        self.product = product
        product.ok("PATCH", "/api/v1/pools/default", {**self._version("pools/default"), "budget": None})
        for slug in TENANTS:
            product.ok("POST", "/api/v1/tenants", {"slug": slug})
        for number, slug in enumerate(CLASSES):
            product.ok("POST", "/api/v1/classes", {"slug": slug, "weight": 3 - number})
        scopes = ["submit", "work", "read", "operate"]
        self.key = product.ok("POST", "/api/v1/keys", {"name": "bench", "scopes": scopes})["key"]
        self._workers = 0

    def _version(self, path: str) -> dict[str, Any]:
        return {"version": self.product.ok("GET", f"/api/v1/{path}")["version"], "reason": "bench"}

    def sessions(self, count: int, slots: int) -> list[int]:
        """So many new workers."""
        names = list(range(self._workers, self._workers + count))
        self._workers += count
        return finished(self.start("join", names, slots=slots))["done"]

    def submit(self, count: int, k: int = 1000, lines: int = 2, processes: int = 1, **fields: Any) -> Ran:
        """Submit `count` tasks in calls of `k` over `lines` connections."""
        calls = max(1, count // (k * lines))
        numbers = list(range(lines))
        return self.swarm(
            "submit", numbers, processes, k=k, calls=calls, **{"tenants": TENANTS, "classes": CLASSES} | fields
        )

    def swarm(self, kind: str, sessions: list[int], processes: int = 2, **fields: Any) -> Ran:
        """Run agents of this kind, one connection for each session, spread over so many processes."""
        running = [self.start(kind, sessions[n::processes], **fields) for n in range(processes)]
        return together([finished(process) for process in running])

    def start(self, kind: str, sessions: list[int], **fields: Any) -> "subprocess.Popen[bytes]":
        """One swarm that goes on by itself; `finished` waits for it."""
        job = {"url": self.product.url, "key": self.key, "kind": kind, "sessions": sessions, **fields}
        command = [sys.executable, "-m", "tests.bench.swarm"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=harness.ROOT)
        assert process.stdin
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        return process

    def sql(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Look into the product's database, or fill it."""
        with self.connect() as connection:
            cursor = connection.execute(text, params)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection of its own, in autocommit."""
        where = str(socket_dir(self.product.data))
        return psycopg.connect(host=where, user="evenflow", dbname="evenflow", autocommit=True)

    def goodbye(self) -> None:
        """The sessions so far end, so that they are nobody's capacity any more."""
        self.sql("UPDATE worker_session SET closed_at = now() WHERE closed_at IS NULL")

    def empty(self) -> None:
        """Nothing is queued, nothing runs, nobody is there."""
        self.goodbye()
        self.sql("DELETE FROM lease")
        self.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE state <> 4")

    def web(self) -> tuple[float, int]:
        """Resident memory of the web process in MB, and its threads."""
        lines = Path(f"/proc/{self.product.pid('web')}/status").read_text().splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts["VmRSS"].split()[0]) / 1024, int(facts["Threads"])

    # Processor time

    def cpu(self) -> dict[str, float]:
        """Seconds of processor that each part has used so far: web, cluster parts, postgres with its children."""
        kinds: dict[str, float] = {}
        children = _children()
        for kind, pids in self.product.pids().items():
            for pid in pids:
                family = [pid, *children.get(pid, [])] if kind == "postgres" else [pid]
                kinds[kind] = kinds.get(kind, 0.0) + sum(_seconds(one, dead=kind == "postgres") for one in family)
        return kinds


def finished(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What a swarm did, when it has ended."""
    assert process.stdout
    with process.stdout as output:
        told: dict[str, Any] = json.loads(output.read().splitlines()[-1])
    assert process.wait() == 0
    return told


def together(told: list[dict[str, Any]]) -> Ran:
    first: dict[str, tuple[float, int]] = {}
    refused: dict[str, int] = {}
    for one in told:
        for tenant, (at, count) in one["first"].items():
            before = first.get(tenant, (0.0, 0))
            first[tenant] = (max(at, before[0]), count + before[1])
        for name, count in one["refused"].items():
            refused[name] = refused.get(name, 0) + count
    return Ran(
        done=[task for one in told for task in one["done"]],
        at=[at for one in told for at in one["at"]],
        first=first,
        refused=refused,
        began=min(one["began"] for one in told),
        load_cpu_s=sum(one["cpu_s"] for one in told),
        waited=[s for one in told for s in one["waited"]],
    )


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(folder.name))
    return found


def _seconds(pid: int, *, dead: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11 : 15 if dead else 13]) / TICKS


@contextlib.contextmanager
def floor(**env: str) -> Iterator[Floor]:
    """A started product, ready for swarms."""
    # one key stands for a whole fleet here, which no limit per key was made for
    fixed = {"EVENFLOW_LOG": "WARNING", "EVENFLOW_API_PER_MINUTE": "0"}
    with harness.running(env=fixed | env) as product:
        yield Floor(product)
