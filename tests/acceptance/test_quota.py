"""Quotas under simultaneous claims and dead holders, on the running product.

Cases: many claims in one instant never pass a tenant's maximum (one and two clusters); the slots of killed agents come
back, whatever else is killed with them and whatever is left of their rows.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Product, another_cluster, running
from tests.acceptance.invariants import Invariants
from tests.acceptance.ledger import Ledger
from tests.acceptance.world import TTL_S, Session, fleet, prepare, submit
from tests.rounds import FULL, rounds

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600 if FULL else 120)]

AGENTS = 20
LIMIT = 5
OVERLAP = """
with edge as (
  select granted_at as at, 1 as step from attempt where task_id = any(%(ids)s)
  union all select ended_at, -1 from attempt where task_id = any(%(ids)s))
select max(running) as most from (select sum(step) over (order by at, step) as running from edge) x
"""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        prepare(started)
        yield started


@pytest.fixture(autouse=True)
def _limits(product: Product) -> Iterator[None]:
    """What a case set for alpha ends with it."""
    yield
    product.patch("tenants", "alpha", max=None)


def at_one_barrier(sessions: list[Session], done: threading.Event) -> list[tuple[int, float, float]]:
    """All sessions claim at once, and go on until `done`: (task, received, about to complete) of each."""
    barrier = threading.Barrier(len(sessions))

    def work(session: Session) -> list[tuple[int, float, float]]:
        barrier.wait(10)
        held = []
        while not done.is_set():
            for lease in session.claim(1, wait_s=0.5):
                began = time.monotonic()
                time.sleep(0.1)
                held.append((lease["task_id"], began, time.monotonic()))
                session.complete(lease)
        return held

    with ThreadPoolExecutor(len(sessions)) as pool:
        return [entry for entries in pool.map(work, sessions) for entry in entries]


def most_at_once(held: list[tuple[int, float, float]]) -> int:
    edges = sorted([(began, 1) for _, began, _ in held] + [(ended, -1) for _, _, ended in held])
    running, most = 0, 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most


@pytest.mark.parametrize("clusters", [1, 2])
def test_claims_in_the_same_instant_never_pass_the_quota(product: Product, clusters: int) -> None:
    invariants, ledger = Invariants(product), Ledger(product)
    product.patch("tenants", "alpha", max=LIMIT)
    invariants.did("patch_tenant")
    sessions = [Session(product, f"q{number}") for number in range(AGENTS)]
    done = threading.Event()
    with another_cluster(product) if clusters == 2 else nullcontext():
        ids = submit(product, *[{"payload": number} for number in range(200)])
        invariants.remember()
        watcher = threading.Thread(target=watch, args=(ledger, ids, done))
        watcher.start()
        held = at_one_barrier(sessions, done)
        watcher.join()
    assert sorted(task for task, _, _ in held) == ids, "each task is given once"
    assert most_at_once(held) == LIMIT
    assert ledger.one(OVERLAP, ids=ids)["most"] == LIMIT
    for session in sessions:
        assert session.claim(1, wait_s=0) == [], "nothing left is a clean, empty answer"
        session.goodbye()
    invariants.check()


def watch(ledger: Ledger, ids: list[int], done: threading.Event) -> None:
    """Set `done` when all are finished, or after half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        left = ledger.one("select count(*) as n from task where id = any(%(ids)s) and state <> 4", ids=ids)["n"]
        if left == 0:
            break
        time.sleep(0.1)
    done.set()


@pytest.mark.parametrize("rows_removed", [False, True], ids=["rows-kept", "rows-removed"])
@pytest.mark.parametrize("parts_killed", [False, True], ids=["agents-only", "web-and-dispatcher-too"])
def test_dead_holders_give_their_slots_back(
    product: Product, tmp_path: Path, parts_killed: bool, rows_removed: bool
) -> None:
    for turn in rounds(8, 1):
        folder = tmp_path / str(turn)
        folder.mkdir()
        holders_die(product, folder, parts_killed, rows_removed)


def holders_die(product: Product, folder: Path, parts_killed: bool, rows_removed: bool) -> None:
    invariants, ledger = Invariants(product), Ledger(product)
    product.patch("tenants", "alpha", max=2)
    with fleet(product, folder) as agents:
        agents.start("w1")
        agents.start("w2")
        first = submit(product, {"type": "hold"}, {"type": "hold"})
        product.wait_for(lambda: {event.task for event in agents.events()} == set(first))
        rest = submit(product, *[{"type": "work", "payload": {"s": 0.1}} for _ in range(8)])
        invariants.remember()
        for name in ("w1", "w2"):
            agents.kill(name)
        if parts_killed:
            product.kill("web")
            product.kill("dispatcher")
        if rows_removed:
            forget_workers(ledger)
        product.wait_for(product.healthy)
        since = time.monotonic()
        agents.start("w3")
        agents.start("w4")
        product.wait_for(lambda: {event.task for event in agents.events() if event.what == "end"} >= set(first), 20)
        starts = [event for event in agents.events() if event.what == "start" and event.task in first]
        # Nobody is lost before a web process could have heard it for a whole TTL: that is looked at once a TTL.
        assert max(event.at for event in starts) - since <= TTL_S + 2 + (TTL_S if parts_killed else 0)
        product.wait_for(lambda: {event.task for event in agents.events() if event.what == "end"} == {*first, *rest})
        ends = Counter(event.task for event in agents.events() if event.what == "end")
        assert set(ends.values()) == {1}
    assert ledger.rows("select task_id from lease") == []
    invariants.check()


def forget_workers(ledger: Ledger) -> None:
    """The rows of the dead agents vanish before their leases end."""
    with ledger.connection() as connection:
        connection.execute("delete from demand")
        connection.execute("delete from worker_session")
        connection.execute("delete from worker")


def test_a_stopped_agent_is_as_good_as_dead_and_its_late_end_is_refused(product: Product, tmp_path: Path) -> None:
    """SIGSTOP instead of SIGKILL: the process comes back after its task went on elsewhere."""
    invariants = Invariants(product)
    with fleet(product, tmp_path) as agents:
        agents.start("w1")
        (task,) = submit(product, {"type": "work", "payload": {"s": 1.0}})
        product.wait_for(agents.events)
        frozen = agents.processes["w1"]
        os.kill(frozen.pid, signal.SIGSTOP)
        agents.start("w2")
        product.wait_for(lambda: any(event.what == "end" for event in agents.events()))
        os.kill(frozen.pid, signal.SIGCONT)
        product.wait_for(lambda: any(event.what == "lost" for event in agents.events()))
        assert [(event.task, event.agent) for event in agents.events() if event.what == "end"] == [(task, "w2")]
    answer: dict[str, Any] = product.ok("GET", f"/api/v1/tasks/{task}")
    assert answer["result"] == "done by w2"
    invariants.check()
