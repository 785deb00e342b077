"""The product over HTTP: real processes, durable, keys, fencing and the full fair policy on; agents are cheap swarms.

Every run also counts: accepted completions = tasks submitted, none twice, none lost (these are asserted; speeds are
not). EVENFLOW_BENCH_ROUNDS (2) repeats the life cycles, interleaved; the tables show medians, and where the processor
time went, by process. EVENFLOW_SERVER chooses the web server.
"""

import os
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.bench import floor as floors
from tests.bench.floor import CLASSES, TENANTS, Floor, Ran
from tests.bench.report import Lines

ROUNDS = int(os.environ.get("EVENFLOW_BENCH_ROUNDS", "2"))
SCALE = float(os.environ.get("EVENFLOW_BENCH_SCALE", "1"))  # of the number of tasks; small ones on a busy machine

LIVES = (  # name, kind, agents, tasks a call, tasks
    ("claim + complete, 32 agents", "two_calls", 32, 1, 12_000),
    ("claim + complete, 64 agents", "two_calls", 64, 1, 12_000),
    ("complete and claim in one call, 32 agents", "one_call", 32, 1, 12_000),
    ("complete and claim in one call, 256 agents", "one_call", 256, 1, 24_000),
    ("ten a call, 32 agents", "one_call", 32, 10, 60_000),
    ("a hundred a call, 32 agents", "one_call", 32, 100, 100_000),
)
SUBMITS = (  # name, connections, tasks a call, tasks
    ("submit one by one, 1 connection", 1, 1, 500),
    ("submit one by one, 32 connections", 32, 1, 8_000),
    ("submit by 1,000, 2 connections", 2, 1000, 60_000),
)


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    with floors.floor() as found:
        yield found


class Share:
    """Processor time by process while something ran, as µs a task."""

    def __init__(self, floor: Floor) -> None:
        self.floor, self.before = floor, floor.cpu()

    def of(self, ran: Ran) -> str:
        """In words, largest first."""
        after, count = self.floor.cpu(), len(ran.done)
        used = {kind: (after[kind] - self.before.get(kind, 0.0)) / count * 1e6 for kind in after}
        used["agents"] = ran.load_cpu_s / count * 1e6
        return ", ".join(f"{k} {us:.0f}" for k, us in sorted(used.items(), key=lambda one: -one[1]) if us >= 1)


def drained(floor: Floor, kind: str, agents: int, k: int, count: int) -> tuple[Ran, str]:
    """Submit, let agents empty the queue, count."""
    given = floor.submit(count, lines=1)
    sessions = floor.sessions(agents, k)
    share = Share(floor)
    ran = floor.swarm(kind, sessions, k=k)
    assert ran.refused == {}, ran.refused
    assert sorted(ran.done) == sorted(given.done), "each task is completed exactly once"
    left = floor.sql("SELECT count(*) FROM task WHERE state <> 4")[0][0]
    ended = floor.sql("SELECT count(*), count(DISTINCT task_id) FROM attempt WHERE task_id = ANY(%s)", given.done)[0]
    assert (left, ended) == (0, (len(given.done), len(given.done)))
    return ran, share.of(ran)


def bench_life(floor: Floor) -> None:
    lines = Lines("Life cycle over HTTP: tasks/s (10..90 %), and µs of processor a task by process")
    for _ in range(ROUNDS):
        for name, kind, agents, k, count in LIVES:
            ran, share = drained(floor, kind, agents, k, int(count * SCALE))
            lines.add(name, ran.rate, share)
            floor.goodbye()
    lines.show()


def bench_submit(floor: Floor) -> None:
    lines = Lines("Submit over HTTP: tasks/s, and µs of processor a task by process")
    for name, connections, k, count in SUBMITS:
        share = Share(floor)
        ran = floor.submit(int(count * SCALE), k=k, lines=connections)
        assert ran.refused == {} and len(set(ran.done)) == len(ran.done)
        lines.add(name, len(ran.done) / (max(ran.at) - ran.began), share.of(ran))
    floor.empty()
    lines.show()


def bench_latency(floor: Floor) -> None:
    """50 single tasks a second on an idle queue, 8 agents parked: from before the submit call to the agent's hands."""
    floor.empty()
    agents = floor.start("two_calls", floor.sessions(8, 1), k=1, wait_s=3, patience=2)
    time.sleep(1)
    paced = floor.swarm("pace", [0], 1, rate=50, calls=int(600 * SCALE), tenants=TENANTS, classes=CLASSES)
    ran = floors.together([floors.finished(agents)])
    assert sorted(ran.done) == sorted(paced.done)
    waited = sorted(s * 1000 for s in ran.waited[len(ran.waited) // 20 :])
    p50, p95, p99 = (waited[int(len(waited) * part)] for part in (0.5, 0.95, 0.99))
    print(f"\nSubmit to the agent's hands at 50 tasks/s: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")


def bench_small_tenant(floor: Floor) -> None:
    """A tenant's 100 tasks behind another's 20,000: when they have started, as a part of the whole time."""
    big, small, count = TENANTS[0], TENANTS[1], int(20_000 * SCALE)
    rates = {}
    for name, tenants in (("one queue", [big]), ("two tenants", [big, small])):
        floor.submit(count, lines=1, tenants=[big], classes=CLASSES[:1])
        floor.submit(100, k=100, lines=1, tenants=tenants[-1:], classes=CLASSES[:1])
        ran = floor.swarm("one_call", floor.sessions(32, 10), k=10)
        assert len(set(ran.done)) == len(ran.done) == count + 100
        rates[name] = ran.rate
        floor.goodbye()
    at, started = ran.first[small]
    assert started == 100
    part = (at - ran.began) / (max(ran.at) - ran.began)
    print(
        f"\nA tenant's 100 tasks behind another's {count:,}: started after {part:.4f} of the whole time, at "
        f"{rates['two tenants'] / rates['one queue']:.2f} x the rate of one queue"
    )


def bench_heartbeats(floor: Floor) -> None:
    """10,000 leases in 1,000 agents, renewed every 10 s: the part of one core that web and PostgreSQL use."""
    floor.empty()
    agents, each = 1000, max(1, int(10 * min(1, SCALE)))
    floor.submit(agents * each, lines=1)
    sessions = floor.sessions(agents, each)
    running = floor.start("hold", sessions, k=each, beat_s=10, limit_s=45)
    assert running.stdout
    running.stdout.readline()
    time.sleep(2)
    before, began = floor.cpu(), time.monotonic()
    time.sleep(20)
    seconds, after = time.monotonic() - began, floor.cpu()
    used = {
        kind: (after[kind] - before[kind]) / seconds * 100 for kind in ("web", "postgres", "dispatcher", "reconciler")
    }
    ran = floors.together([floors.finished(running)])
    assert ran.refused == {}, ran.refused
    shown = ", ".join(f"{kind} {part:.1f} %" for kind, part in used.items())
    print(f"\n{agents * each:,} leases of {agents:,} agents, renewed every 10 s: {shown} of one core")
    floor.empty()


def bench_parked(floor: Floor) -> None:
    """5,000 claims that wait: memory and threads of the web process above idle, then work for all of them at once."""
    floor.empty()
    count = int(5000 * min(1, SCALE))
    sessions = floor.sessions(count, 1)
    idle_mb, idle_threads = floor.web()
    parked = floor.start("park", sessions)
    floor.product.wait_for(lambda: floor.sql("SELECT count(*) FROM demand")[0][0] >= count, 60)
    time.sleep(2)
    mb, threads = floor.web()
    began = time.monotonic()
    given = floor.submit(count, k=min(count, 1000), lines=1)
    ran = floors.together([floors.finished(parked)])
    assert sorted(ran.done) == sorted(given.done)
    half, last = (sorted(ran.at)[n] - began for n in (count // 2, -1))
    print(
        f"\n{count:,} parked claims: {mb - idle_mb:.0f} MB and {threads - idle_threads} threads above idle; after a "
        f"submit of as many tasks half were awake after {half:.1f} s, all after {last:.1f} s"
    )
    floor.empty()


def bench_backlog(floor: Floor) -> None:
    """The same agents with 10,000 and 1,000,000 tasks queued over 500 tenants, and while an old snapshot is held."""
    floor.empty()
    floor.sql("INSERT INTO tenant (slug) SELECT 'many' || n FROM generate_series(1, 500) n")
    floor.sql("INSERT INTO tenant_user (tenant_id, name) SELECT id, '-' FROM tenant WHERE slug LIKE 'many%%'")
    floor.sql(
        "INSERT INTO lane (pool_id, work_class_id, tenant_id, user_id, capset_id, tools)"
        " SELECT c.pool_id, c.id, u.tenant_id, u.id, s.id, '{}' FROM work_class c, tenant_user u"
        " JOIN tenant t ON t.id = u.tenant_id, capset s"
        " WHERE c.slug = %s AND t.slug LIKE 'many%%' AND s.names = '{}'",
        CLASSES[0],
    )
    rates = {}
    for name, each in (("10 k queued", 20), ("1 M queued", int(1980 * min(1, SCALE))), ("1 M, held snapshot", 0)):
        floor.sql(
            "INSERT INTO task"
            " (pool_id, work_class_id, tenant_id, lane_id, type, payload, state, enqueued_at, queued_at)"
            " SELECT a.pool_id, a.work_class_id, a.tenant_id, a.id, 'bench', '{}', 1, now(), now()"
            " FROM lane a JOIN tenant t ON t.id = a.tenant_id, generate_series(1, %s) n WHERE t.slug LIKE 'many%%'",
            each,
        )
        if each:
            floor.sql("VACUUM ANALYZE")
        with floor.connect() as old:
            if not each:
                old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                old.execute("SELECT count(*) FROM pool")
            ran = floor.swarm("one_call", floor.sessions(32, 10), k=10, limit_s=8)
            old.rollback()
        assert ran.refused == {} and len(set(ran.done)) == len(ran.done)
        rates[name] = ran.rate
        floor.goodbye()
    base = rates["10 k queued"]
    shown = ", ".join(f"{name} {rate:.0f}/s ({rate / base:.2f} x)" for name, rate in rates.items())
    print(f"\nTen a call, 32 agents, 500 tenants: {shown}")
    floor.sql("TRUNCATE task, lease, lane_delta, lane_depth CASCADE")


def bench_recovery(floor: Floor) -> None:
    """kill -9 of a process with four agents: seconds until their tasks run again. TTL 5 s, reconciler every second."""
    floor.empty()
    floor.product.patch("pools", "default", lease_ttl_s=5, heartbeat_every_s=1)
    times = []
    for _ in range(3):
        given = floor.submit(4, k=4, lines=1)
        holding = floor.start("hold", floor.sessions(4, 1), k=1, beat_s=1)
        assert holding.stdout
        holding.stdout.readline()
        others = floor.start("park", floor.sessions(4, 1))
        time.sleep(2)
        holding.kill()
        killed = time.monotonic()
        holding.wait()
        holding.stdout.close()
        ran = floors.together([floors.finished(others)])
        assert sorted(ran.done) == sorted(given.done)
        times.append(max(ran.at) - killed)
        floor.empty()
    floor.product.patch("pools", "default", lease_ttl_s=30, heartbeat_every_s=10)
    print(
        f"\nRecovery after kill -9, TTL 5 s: {statistics.median(times):.1f} s, at most {max(times):.1f} s"
        " (bound: 6.5 s)"
    )
