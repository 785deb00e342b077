"""The main job on the running product: two tenants, three classes, four agents, one killed, one poison task."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import Product, running
from tests.acceptance.invariants import Invariants
from tests.acceptance.ledger import Ledger
from tests.acceptance.world import CLASSES, TTL_S, Fleet, fleet, prepare, state, submit

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

SUCCEEDED_ONCE = """
select t.id, t.state, count(a.id) filter (where a.outcome = 0) as successes
  from task t left join attempt a on a.task_id = t.id where t.id = any(%(ids)s) group by t.id, t.state
"""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        prepare(started)
        yield started


def mixed(count: int, s: float = 0.05) -> list[dict[str, object]]:
    """Tasks of two tenants and three classes in turn."""
    return [
        {
            "tenant": ("alpha", "beta")[number % 2],
            "class": list(CLASSES)[number % 3],
            "type": "work",
            "payload": {"s": s, "number": number},
            "key": f"mixed-{time.monotonic_ns()}-{number}",
        }
        for number in range(count)
    ]


def assert_succeeded_once(ledger: Ledger, agents: Fleet, ids: list[int]) -> None:
    """Each task is done, by one accepted completion, and no agent believes of a second one."""
    rows = ledger.rows(SUCCEEDED_ONCE, ids=ids)
    assert {(row["state"], row["successes"]) for row in rows} == {(4, 1)}
    assert len(rows) == len(ids)
    ends = Counter(event.task for event in agents.events() if event.what == "end")
    assert {task: n for task, n in ends.items() if n > 1} == {}


def test_two_hundred_tasks_a_crash_and_a_poison(product: Product, tmp_path: Path) -> None:
    invariants, ledger = Invariants(product), Ledger(product)
    with fleet(product, tmp_path) as agents:
        for number in range(4):
            agents.start(f"w{number}")
        (held,) = submit(product, {"type": "hold", "class": "critical"})
        others = submit(product, *mixed(200))
        (poison,) = submit(product, {"type": "poison", "tenant": "beta", "payload": {"n": 1}, "key": "poison-1"})
        invariants.remember()

        first = product.wait_for(lambda: [event for event in agents.events() if event.task == held])[0]
        product.wait_for(lambda: ledger.states().get("succeeded", 0) >= 10, 40)  # all others still wait
        agents.kill(first.agent)
        killed = time.monotonic()

        product.wait_for(lambda: any(event.task == held and event.what == "end" for event in agents.events()))
        second = [event for event in agents.events() if event.task == held and event.what == "start"][1]
        assert second.at - killed <= TTL_S + 2
        assert second.token > first.token

        product.wait_for(lambda: ledger.states().get("succeeded") == 201 and state(product, poison) == "dead", 40)
        assert_succeeded_once(ledger, agents, [held, *others])
        assert not any(
            event.task in others and event.what != "start" and event.what != "end" for event in agents.events()
        )

        dead = product.ok("GET", f"/api/v1/tasks/{poison}")
        failures = [entry for entry in dead["history"] if "counted" in entry]
        assert dead["attempts"] == 3
        assert len(failures) == 3, dead["history"]
        assert all(f"record {poison} cannot be parsed" in str(entry) for entry in failures)
        assert sum(event.task == poison and event.what == "start" for event in agents.events()) == 3
        invariants.check()

        answer = product.ok("POST", f"/api/v1/tasks/{poison}/requeue", {"reason": "parser repaired"})
        assert answer["state"] == "queued"
        invariants.did("requeue")
        product.wait_for(lambda: product.ok("GET", f"/api/v1/tasks/{poison}")["attempts"] >= 1)
        product.wait_for(lambda: state(product, poison) == "dead")
        again = product.ok("GET", f"/api/v1/tasks/{poison}")
        assert again["attempts"] == 3
        assert sum(event.task == poison and event.what == "start" for event in agents.events()) == 6
    invariants.check()


@pytest.mark.parametrize("kind", ["dispatcher", "reconciler", "web", "postgres"])
def test_a_killed_part_heals_and_no_task_is_lost_or_doubled(product: Product, tmp_path: Path, kind: str) -> None:
    invariants, ledger = Invariants(product), Ledger(product)
    done_before = ledger.states().get("succeeded", 0)
    with fleet(product, tmp_path) as agents:
        for number in range(4):
            agents.start(f"w{number}", slots=2)
        ids = submit(product, *mixed(120, 0.1))
        product.wait_for(lambda: sum(event.what == "end" for event in agents.events()) > 20)
        killed = product.kill(kind)
        at = time.monotonic()
        product.wait_for(lambda: killed not in product.pids().get(kind, []))
        late = submit_when_possible(product)
        product.wait_for(lambda: finished(ledger, done_before + 121), 40)
        assert_succeeded_once(ledger, agents, [*ids, *late])
        assert time.monotonic() - at < 40
        product.wait_for(product.healthy)
        assert len(product.pids()[kind]) >= 1
    invariants.check()


def finished(ledger: Ledger, count: int) -> bool:
    """Whether so many tasks have succeeded; no, while PostgreSQL is away."""
    try:
        return ledger.states().get("succeeded", 0) == count
    except Exception:
        return False


def submit_when_possible(product: Product) -> list[int]:
    """One more task, submitted by the SDK right into the outage."""
    from dispatch.agent import Client

    client = Client(product.url, product.admin_key, retry_for_s=40)
    made = client.submit(tenant="beta", class_="critical", type="work", payload={"s": 0})
    client.close()
    return [made.id]
