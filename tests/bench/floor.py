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

from tests.acceptance import harness

TENANTS = [f"t{n}" for n in range(10)]
CLASSES = ["critical", "background"]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Ran:
    """What the swarms of one run did, together."""

    done: list[int]
    at: list[float]
    first: dict[str, tuple[float, int]]
    refused: dict[str, int]
    began: float
    load_cpu_s: float

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
        found = []
        for _ in range(count):
            self._workers += 1
            body = {"name": f"w{self._workers}", "capabilities": [], "slots": slots}
            found.append(self.product.ok("POST", "/api/v1/workers", body, key=self.key)["session_id"])
        return found

    def submit(self, count: int, k: int = 1000, lines: int = 2, processes: int = 1, **fields: Any) -> Ran:
        """Submit `count` tasks in calls of `k` over `lines` connections."""
        calls = max(1, count // (k * lines))
        numbers = list(range(lines))
        return self.swarm(
            "submit", numbers, processes, k=k, calls=calls, **{"tenants": TENANTS, "classes": CLASSES} | fields
        )

    def swarm(self, kind: str, sessions: list[int], processes: int = 2, **fields: Any) -> Ran:
        """Run agents of this kind, one connection for each session, spread over so many processes."""
        jobs = [
            {"url": self.product.url, "key": self.key, "kind": kind, "sessions": sessions[n::processes], **fields}
            for n in range(processes)
        ]
        command = [sys.executable, "-m", "tests.bench.swarm"]
        running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=harness.ROOT) for _ in jobs
        ]
        for process, job in zip(running, jobs, strict=True):
            assert process.stdin
            process.stdin.write(json.dumps(job).encode())
            process.stdin.close()
        told = []
        for process in running:
            assert process.stdout
            told.append(json.loads(process.stdout.read()))
            assert process.wait() == 0
        return _together(told)

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


def _together(told: list[dict[str, Any]]) -> Ran:
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
    with harness.running(env={"EVENFLOW_LOG": "WARNING", **env}) as product:
        yield Floor(product)
