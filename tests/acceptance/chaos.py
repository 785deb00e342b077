"""The monkey, the load and the verdict of the chaos suite (test_chaos.py).

`Monkey` kills, freezes (for a while or for good) and disconnects whatever it finds, chosen by a seed. `Load` submits
tasks with keys (a repeated submit is the same task) and lets operators cancel and requeue. `verdict` reads the database
after it has come to rest.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from dispatch.store.embedded import database_settings
from tests.acceptance.harness import ROOT, Product, clean_environment

TTL_S = 2.0
MAX_ATTEMPTS = 4
# q2's workers twice: there are two of them
OURS = (
    *("dispatcher", "reconciler", "messenger", "web", "sentinel", "cluster"),
    *("q2-worker", "q2-worker", "q2-pusher", "q2-monitor"),
)
# nobody of ours watches over the first process of a second cluster
HEALED = tuple(kind for kind in OURS if kind != "cluster")
DISCONNECT = """
select pg_terminate_backend(pid) from (
  select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
   order by random() limit 3) x
"""

LEADER = """
select p.pid, l.epoch from pool_leader l join process p on p.id = l.process_id join pool o on o.id = l.pool_id
 where o.slug = 'default' and l.beat_at > now() - interval '3 s' and p.kind = 'dispatcher'
"""


def query(product: Product, statement: LiteralString, **params: Any) -> list[tuple[Any, ...]]:
    """Rows of one statement on a short connection."""
    told = database_settings("", product.data)
    with psycopg.connect(dbname=told["NAME"], user=told["USER"], host=told["HOST"]) as made:
        cursor = made.execute(statement, params)
        return cursor.fetchall() if cursor.description else []


class Agents:
    """Real agent processes; `tend` starts dead ones again."""

    def __init__(self, product: Product, folder: Path, count: int) -> None:
        self.product, self.book = product, folder / "book"
        self.book.touch()
        self.processes: dict[str, subprocess.Popen[bytes] | None] = {f"a{n}": None for n in range(count)}

    def tend(self) -> None:
        for name, process in self.processes.items():
            if process is None or process.poll() is not None:
                command = [sys.executable, "-m", "tests.acceptance.chaos_agent", self.product.url, name, str(self.book)]
                env = clean_environment() | {"EVENFLOW_KEY": self.product.admin_key}
                self.processes[name] = subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL)

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes.values() if process is not None and process.poll() is None]

    def end(self) -> None:
        for process in self.processes.values():
            if process is not None:
                process.kill()
                process.wait()

    def completions(self) -> Counter[int]:
        """How often the server accepted a completion of each task, as the agents heard it."""
        return Counter(int(line.split()[0]) for line in self.book.read_text().splitlines())


class Load(threading.Thread):
    """Submits, cancels and requeues from a thread until `finish`; a call that fails is made again with the same key."""

    def __init__(self, product: Product, seed: int, per_s: float) -> None:
        super().__init__(daemon=True)
        self.product, self.random, self.per_s = product, random.Random(seed), per_s
        self.payloads: dict[int, Any] = {}
        self.stopping = threading.Event()
        self.broken: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.stopping.wait(4 / self.per_s):
            specs = [self._spec(number + n) for n in range(4)]
            number += 4
            answer = self._insist("POST", "/api/v1/tasks", {"tasks": specs})
            for spec, task in zip(specs, answer["tasks"] if answer else (), strict=False):
                self.payloads[task["id"]] = spec["payload"]
            if self.payloads and self.random.random() < 0.3:
                task_id = self.random.choice(list(self.payloads))
                verb = self.random.choice(["cancel", "requeue", "requeue"])
                with contextlib.suppress(OSError):
                    self._judge(self.product.call("POST", f"/api/v1/tasks/{task_id}/{verb}", {"reason": "chaos"}))

    def finish(self) -> None:
        self.stopping.set()
        self.join(150)
        assert not self.is_alive()
        assert self.broken == []

    def _spec(self, number: int) -> dict[str, Any]:
        pick = self.random.random
        payload = {"n": number, "s": 3.0 if pick() < 0.05 else round(0.05 + pick() / 2, 3), "fails": pick() < 0.1}
        names = {
            "tenant": self.random.choice(["alpha", "beta"]),
            "class": self.random.choice(["critical", "background"]),
        }
        return names | {"key": f"chaos-{number}", "type": "work", "payload": payload}

    def _insist(self, method: str, path: str, body: Any) -> Any:
        for _ in range(400):
            with contextlib.suppress(OSError):
                status, answer = self.product.call(method, path, body, timeout=10)
                self._judge((status, answer))
                if status < 300:
                    return answer
            time.sleep(0.25)
        self.broken.append(f"{path} never succeeded")
        return None

    def _judge(self, told: tuple[int, Any]) -> None:
        if told[0] >= 500 and told[0] != 503:
            self.broken.append(f"{told[0]} {told[1]}")


class Monkey:
    """One random fault at a time. Whoever it freezes goes on after a few seconds."""

    def __init__(self, product: Product, agents: Agents, seed: int) -> None:
        self.product, self.agents, self.random = product, agents, random.Random(seed)
        self.frozen: dict[int, float] = {}
        self.doomed: set[int] = set()
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """One fault, and thaw who has been frozen long enough."""
        self.thaw()
        acts: list[tuple[Callable[[], str], int]] = [
            (self._kill_agent, 3), (self._freeze_agent, 2), (self._kill_ours, 4), (self._freeze_ours, 3),
            (self._doom_one, 1), (self._disconnect, 2),
        ]  # fmt: skip
        act = self.random.choices([one for one, _ in acts], [weight for _, weight in acts])[0]
        with contextlib.suppress(ProcessLookupError, psycopg.OperationalError, IndexError):
            self.done[act()] += 1

    def thaw(self, everybody: bool = False) -> None:
        for pid, until in list(self.frozen.items()):
            if everybody or until < time.monotonic():
                del self.frozen[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill_postgres(self) -> None:
        """kill -9 of the postmaster: the database recovers from its log."""
        self.product.kill("postgres")
        self.done["kill postgres"] += 1

    def stop_postgres(self, seconds: float, *others: str) -> None:
        """A database that is away for a while, and other processes of ours with it: who would start them again is
        frozen meanwhile.
        """
        up = self.product.pid("up")
        os.kill(up, signal.SIGSTOP)
        try:
            for kind in others:
                self.product.kill(kind)
            os.kill(int((self.product.data / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGINT)
            time.sleep(seconds)
        finally:
            os.kill(up, signal.SIGCONT)
        self.done["stop postgres"] += 1

    def doom(self, *kinds: str) -> None:
        """Freeze one process of each of these kinds for good; whoever started it has to replace it."""
        for kind in kinds:
            with contextlib.suppress(ProcessLookupError, IndexError):
                self._doom(self.random.choice(self.product.pids().get(kind, [])))
                self.done[f"freeze {kind} for good"] += 1

    def _freeze(self, pid: int) -> None:
        if pid in self.doomed:
            return
        os.kill(pid, signal.SIGSTOP)
        self.frozen[pid] = time.monotonic() + self.random.uniform(0.5, 5)

    def _kill_agent(self) -> str:
        os.kill(self.random.choice(self.agents.pids()), signal.SIGKILL)
        return "kill agent"

    def _freeze_agent(self) -> str:
        self._freeze(self.random.choice(self.agents.pids()))
        return "freeze agent"

    def _kill_ours(self) -> str:
        kind, pid = self._one(OURS)
        os.kill(pid, signal.SIGKILL)
        return f"kill {kind}"

    def _freeze_ours(self) -> str:
        kind, pid = self._one(OURS)
        self._freeze(pid)
        return f"freeze {kind}"

    def _doom_one(self) -> str:
        kind, pid = self._one(HEALED)
        self._doom(pid)
        return f"freeze {kind} for good"

    def _doom(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self.frozen.pop(pid, None)
        self.doomed.add(pid)

    def _one(self, kinds: tuple[str, ...]) -> tuple[str, int]:
        """A process of ours, and what it is: of the dispatchers, whether it leads."""
        kind = self.random.choice(kinds)
        pid = self.random.choice(self.product.pids().get(kind, []))
        if kind == "dispatcher":
            kind = "leader" if pid in {row[0] for row in query(self.product, LEADER)} else "standby"
        return kind, pid

    def _disconnect(self) -> str:
        query(self.product, DISCONNECT)
        return "disconnect"


TORN = """
select t.id, t.state, l.token from task t full join lease l on l.task_id = t.id
 where (t.state = 2) is distinct from (l.task_id is not null)
"""
DRIFTED = """
select lane_id, sum(q), sum(s), sum(h), sum(d) from (
  select lane_id, queued q, scheduled s, held h, dead d from lane_depth
  union all select lane_id, queued, scheduled, held, dead from lane_delta
  union all select lane_id, -(state = 1)::int, -(state = 0)::int, -(state = 3)::int, -(state = 5)::int from task) x
 group by lane_id having sum(q) <> 0 or sum(s) <> 0 or sum(h) <> 0 or sum(d) <> 0
"""
ACCEPTED = """
select t.id, t.state, count(a.id) from task t left join attempt a on a.task_id = t.id and a.outcome = 0
 group by t.id having count(a.id) <> (t.state = 4)::int
"""
STARTS = """
select t.id, t.starts, count(a.id) from task t left join attempt a on a.task_id = t.id group by t.id
having t.starts <> count(a.id)
"""
OVER = """
select a.task_id, count(*) from attempt a where a.counted group by a.task_id
having count(*) > %(allowed)s * (1 + (select count(*) from audit_event e where e.action = 'requeue' and not e.refused
                                        and e.target = a.task_id::text))
"""
OPEN = "select count(*) from task where state in (0, 1, 2)"


def verdict(product: Product, load: Load, agents: Agents) -> None:
    """What must hold once everything has come to rest."""
    assert query(product, TORN) == [], "a task is leased exactly when one lease names it"
    assert query(product, DRIFTED) == [], "lane counts equal the rows"
    assert query(product, "select task_id from lease") == [], "no slot leaked"
    assert query(product, ACCEPTED) == [], "one accepted completion for each success, none for others"
    assert query(product, STARTS) == [], "every start is one attempt"
    assert query(product, OVER, allowed=MAX_ATTEMPTS) == [], "starts within the limit"
    rows = query(product, "select id, key, payload from task order by id")
    stored = {row[0]: row[2] for row in rows}
    assert load.payloads.items() <= stored.items(), "nothing lost, nothing changed"
    assert len({row[1] for row in rows}) == len(rows), "nothing doubled"
    done = agents.completions()
    assert set(done.values()) <= {1}, "no task was completed twice"
    final = dict(query(product, "select id, state from task where state in (4, 6)"))
    assert set(done) <= set(final), "what an agent was told is done stays done"
    assert query(product, "select subject, text from alert where rule = 'invariant'") == []
