"""Chaos: a mixed load on the real product while everything is killed, frozen and disconnected at random.

Two clusters work on the database. Some processes are frozen for good: the product has to replace them itself.
`make chaos` runs EVENFLOW_CHAOS_S=600 seconds of it with strict times; `make test` some 35 with generous ones. The seed
is printed; EVENFLOW_CHAOS_SEED repeats its choices.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatch.jobs.vigil import is_stopped
from tests.acceptance import chaos
from tests.acceptance.chaos import MAX_ATTEMPTS, TTL_S, Agents, Load, Monkey, query
from tests.acceptance.harness import CLUSTER, KINDS, Product, another_cluster, running

SECONDS = float(os.environ.get("EVENFLOW_CHAOS_S", "35"))
SEED = int(os.environ.get("EVENFLOW_CHAOS_SEED") or random.randrange(2**32))
FULL = SECONDS >= 300

pytestmark = [pytest.mark.processes, pytest.mark.timeout(SECONDS * 1.5 + 400)]


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        started.patch("pools", "default", lease_ttl_s=TTL_S, heartbeat_every_s=0.5, offer_ttl_s=2)
        for slug in ("critical", "background"):
            fields = {"slug": slug, "max_attempts": MAX_ATTEMPTS, "backoff_s": 0.2, "backoff_max_s": 2}
            started.ok("POST", "/api/v1/classes", fields)
        for slug in ("alpha", "beta"):
            started.ok("POST", "/api/v1/tenants", {"slug": slug})
        yield started


def whole(product: Product, clusters: int = 1) -> bool:
    """Every process is there, runs, and the product says that it is ready."""
    pids = product.pids()
    there = all(len(pids.get(kind, [])) >= (clusters if kind in CLUSTER else 1) for kind in KINDS)
    return there and not any(is_stopped(pid) for kind in KINDS for pid in pids[kind]) and product.healthy()


def test_whatever_dies_nothing_is_lost_doubled_or_stuck(product: Product, tmp_path: Path) -> None:
    print(f"\nchaos: EVENFLOW_CHAOS_SEED={SEED} EVENFLOW_CHAOS_S={SECONDS:g}")
    agents = Agents(product, tmp_path, 4)
    load, monkey = Load(product, SEED, per_s=16), Monkey(product, agents, SEED)
    dice = random.Random(SEED)
    try:
        with another_cluster(product) as other:
            end = time.monotonic() + SECONDS
            due = breaks(monkey, end)
            load.start()
            while time.monotonic() < end:
                agents.tend()
                other.tend()
                if due and due[0][0] < time.monotonic():
                    due.pop(0)[1]()
                else:
                    monkey.act()
                time.sleep(dice.uniform(0.2, 1.2))
            monkey.thaw(everybody=True)
            load.finish()
            other.tend()
            product.wait_for(lambda: whole(product, clusters=2), 90)
            assert [pid for pid in monkey.doomed if is_stopped(pid)] == [], "what stood still was replaced"
            agents.tend()
            product.wait_for(lambda: query(product, chaos.OPEN) == [(0,)], 120)
            print(f"chaos: {len(load.payloads)} tasks, {dict(sorted(monkey.done.items()))}")
            chaos.verdict(product, load, agents)
            assert whole(product, clusters=2), "recovered without help"
    finally:
        monkey.thaw(everybody=True)
        load.stopping.set()
        agents.end()


def breaks(monkey: Monkey, end: float) -> list[tuple[float, Callable[[], None]]]:
    """What surely happens, and when: the random faults come between."""
    return [
        (end - SECONDS * 0.95, lambda: monkey.doom("web", "q2-worker", "reconciler")),
        (end - SECONDS * 0.7, monkey.kill_postgres),
        (end - SECONDS * 0.55, lambda: monkey.doom("sentinel", "dispatcher")),
        (end - SECONDS * 0.35, stop_of(monkey)),
    ]


def stop_of(monkey: Monkey) -> Callable[[], None]:
    return lambda: monkey.stop_postgres(20 if FULL else 4)


HOLDERS = """
select l.task_id, w.name from lease l join worker_session s on s.id = l.session_id join worker w on w.id = s.worker_id
 where l.delivered_at is not null
"""
LIVES = "select id, starts, attempts, state from task where id = any(%(ids)s)"


@pytest.mark.parametrize("others", [(), ("web", "cluster")], ids=["database", "everything"])
def test_our_outage_is_not_the_death_of_the_agents(product: Product, tmp_path: Path, others: tuple[str, ...]) -> None:
    """Away for three leases: who lives keeps its task, who died meanwhile loses it, and nothing dies of it.

    What ended meanwhile is accepted late.
    """
    product.wait_for(lambda: whole(product), 60)
    agents = Agents(product, tmp_path, 3)
    agents.tend()
    try:
        task = {"tenant": "alpha", "class": "critical", "type": "work"}
        # half of them end while nobody can hear it
        batch = [task | {"payload": {"s": length * TTL_S, "fails": False}} for length in (4, 2.5) * 3]
        ids = [made["id"] for made in product.ok("POST", "/api/v1/tasks", {"tasks": batch})["tasks"]]
        product.wait_for(lambda: len(query(product, HOLDERS)) == 6)
        holders = {row[0]: row[1] for row in query(product, HOLDERS)}
        victim = agents.processes[holders[ids[0]]]
        assert victim is not None
        victim.kill()
        victim.wait()
        Monkey(product, agents, SEED).stop_postgres(3 * TTL_S, *others)
        product.wait_for(lambda: whole(product), 60)
        agents.tend()
        product.wait_for(lambda: query(product, chaos.OPEN) == [(0,)], 60)
        for id_, starts, attempts, state in query(product, LIVES, ids=ids):
            lost = holders[id_] == holders[ids[0]]
            assert (starts, attempts, state) == (1 + lost, int(lost), 4), holders
    finally:
        agents.end()


def fail_over(product: Product, how: signal.Signals) -> tuple[int, float]:
    """Strike the leader; the process that was struck, and after how many seconds another one dispatched."""
    product.wait_for(lambda: query(product, chaos.LEADER))
    ((pid, epoch),) = query(product, chaos.LEADER)
    started = time.monotonic()
    os.kill(pid, how)
    product.wait_for(lambda: [row for row in query(product, chaos.LEADER) if row[1] > epoch and row[0] != pid], 20)
    return pid, time.monotonic() - started


def test_of_two_clusters_the_other_takes_the_lead(product: Product) -> None:
    product.wait_for(lambda: whole(product), 60)
    with another_cluster(product):
        time.sleep(2)  # the standby has to wait at the seat
        _, took = fail_over(product, signal.SIGKILL)
        print(f"\nchaos: fail-over after kill -9 took {took:.2f} s")
        assert took < (1 if FULL else 4)
        product.wait_for(lambda: len(product.pids().get("dispatcher", [])) == 2)
        time.sleep(2)
        frozen, took = fail_over(product, signal.SIGSTOP)
        print(f"chaos: fail-over from a frozen leader took {took:.2f} s")
        try:
            assert took < (5 if FULL else 12)
            ((heir, epoch),) = query(product, chaos.LEADER)
        finally:
            os.kill(frozen, signal.SIGCONT)
        time.sleep(2)
        assert query(product, chaos.LEADER) == [(heir, epoch)], (
            "the one that wakes up again is deposed, and writes nothing"
        )
        leading = "select count(*) from process where kind = 'dispatcher' and info->'leading' <> '[]'"
        product.wait_for(lambda: query(product, leading + " and beat_at > now() - interval '3 s'") == [(1,)], 10)
