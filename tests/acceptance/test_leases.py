"""Fencing, reclaim and dead letters on the running product, with sessions that speak by hand.

Cases: completion and reclaim in the same instant; an old process of the same worker name; tasks that silence their
workers; requeue as a real new chance; payloads and errors of every size.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.harness import Product, running
from tests.acceptance.invariants import Invariants
from tests.acceptance.ledger import Ledger
from tests.acceptance.world import TTL_S, Session, prepare, state, submit
from tests.rounds import FULL, rounds

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600 if FULL else 120)]


TWO_HOURS_AGO = """
update task set finished_at = finished_at - interval '2 h', enqueued_at = enqueued_at - interval '2 h',
       created_at = created_at - interval '2 h', queued_at = queued_at - interval '2 h' where id = any(%(ids)s)
"""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running() as started:
        prepare(started)
        yield started


@pytest.fixture
def invariants(product: Product) -> Iterator[Invariants]:
    """All invariants hold before and after."""
    made = Invariants(product)
    made.check()
    yield made
    made.remember()
    made.check()


def history(product: Product, task_id: int) -> list[dict[str, Any]]:
    """The attempts of a task as the API tells them."""
    return [entry for entry in product.ok("GET", f"/api/v1/tasks/{task_id}")["history"] if "counted" in entry]


def test_completion_and_reclaim_in_the_same_instant(product: Product, invariants: Invariants) -> None:
    ledger, slots = Ledger(product), 40
    wins = {"complete": 0, "reclaim": 0}
    for _ in rounds(8, 2):
        ids = submit(product, *[{"payload": number} for number in range(slots)])
        session = Session(product, "racer", slots)
        leases: list[dict[str, Any]] = []
        while len(leases) < slots:
            leases += session.claim(slots)
        expiry = time.monotonic() + TTL_S

        def complete_late(lease: dict[str, Any], at: float = expiry, by: Session = session) -> tuple[int, Any]:
            # the sweep comes once a second: over one second of delays some calls meet it
            time.sleep(max(0.0, at + random.uniform(-0.05, 1.05) - time.monotonic()))
            return by.end(lease, "complete", result=lease["token"])

        with ThreadPoolExecutor(slots) as pool:
            answers = list(pool.map(complete_late, leases))
        session.goodbye()
        rescue = Session(product, "rescuer", slots)
        for lease, (status, answer) in zip(leases, answers, strict=True):
            row = ledger.one("select state, result from task where id = %(id)s", id=lease["task_id"])
            if status == 200:
                wins["complete"] += 1
                assert (row["state"], row["result"]) == (4, lease["token"])
            else:
                wins["reclaim"] += 1
                assert (status, answer["type"].rpartition("/")[2]) == (409, "lease-lost")
                assert row["state"] != 4 or row["result"] != lease["token"]
        while ledger.one("select count(*) as n from task where id = any(%(ids)s) and state <> 4", ids=ids)["n"]:
            for lease in rescue.claim(slots, wait_s=2):
                rescue.complete(lease, "again")
        rescue.goodbye()
        once = "select count(*) as n from attempt where task_id = any(%(ids)s) and outcome = 0"
        assert ledger.one(once, ids=ids)["n"] == slots
    assert wins["complete"] > 0
    assert wins["reclaim"] > 0


def test_an_old_process_of_the_same_name_changes_nothing(product: Product, invariants: Invariants) -> None:
    (task,) = submit(product, {"payload": "x"})
    old = Session(product, "w1")
    first = old.claim_one()
    new = Session(product, "w1")
    second = new.claim_one(wait_s=TTL_S + 4)
    assert (second["task_id"], second["attempt"]) == (task, 2)
    assert second["token"] > first["token"]
    expires = product.ok("GET", f"/api/v1/tasks/{task}")["lease"]["expires_at"]

    assert old.beat(first)[0]["status"] == "lost"
    ends = {"complete": {"result": "old"}, "fail": {"error": {"message": "old"}}, "release": {}}
    for verb, fields in ends.items():
        status, answer = old.end(first, verb, **fields)
        assert (status, answer["type"].rpartition("/")[2]) == (409, "lease-lost"), verb
        status, answer = product.call("POST", f"/api/v1/tasks/{task}/{verb}", fields)
        assert (status, answer["errors"][0]["field"]) == (422, "token"), verb
    assert old.end(first, "checkpoint", checkpoint=1)[0] == 409

    now = product.ok("GET", f"/api/v1/tasks/{task}")
    assert (now["state"], now["lease"]["expires_at"], now["lease"]["worker"]) == ("leased", expires, "w1")
    new.complete(second, "new")
    assert product.ok("GET", f"/api/v1/tasks/{task}")["result"] == "new"
    for session in (old, new):
        session.goodbye()


def test_tasks_that_silence_their_workers_become_dead_letters(product: Product, invariants: Invariants) -> None:
    three, one = submit(product, {"payload": "t1", "max_attempts": 3}, {"payload": "t2", "max_attempts": 1})
    beside = submit(product, *[{"class": "critical", "payload": number} for number in range(10)])
    victims, steady = [Session(product, f"victim{number}") for number in range(2)], Session(product, "steady")
    doomed, flowing = {three, one}, set(beside)
    end = time.monotonic() + 4 * (TTL_S + 2)
    while flowing or {state(product, task) for task in doomed} != {"dead"}:
        assert time.monotonic() < end
        for session in [*victims, steady]:
            for lease in session.claim(1, wait_s=0.2):
                if lease["task_id"] in flowing:
                    session.complete(lease)
                    flowing.discard(lease["task_id"])
    assert [len(history(product, task)) for task in (three, one)] == [3, 1]
    for entry in history(product, three):
        assert entry["event"] == "lost"
        assert entry["worker"] in {"victim0", "victim1", "steady"}
    dead = {task: product.ok("GET", f"/api/v1/tasks/{task}") for task in doomed}
    assert [dead[three]["losses"], dead[one]["losses"]] == [3, 1]
    assert all(task["reason"] for task in dead.values())
    product.wait_for(lambda: product.ok("GET", "/api/v1/stats?pool=default")["dead"]["total"] >= 2, 5)
    for session in [*victims, steady]:
        session.goodbye()


def test_requeue_is_a_real_new_chance(product: Product, invariants: Invariants) -> None:
    ledger, session = Ledger(product), Session(product, "second-chance", 2)
    due = {"deadline": None, "capabilities": [], "priority": 5}
    ids = submit(
        product, *[{"payload": {"n": n}, "key": f"chance-{n}", "max_attempts": 3, "priority": 5} for n in (1, 2)]
    )
    while {state(product, task) for task in ids} != {"dead"}:
        for lease in session.claim(2, wait_s=1):
            session.fail(lease, "first life")
    ledger.execute(TWO_HOURS_AGO, ids=ids)
    invariants.remember()
    for task in ids:
        product.ok("POST", f"/api/v1/tasks/{task}/requeue", {"reason": "upstream repaired"})
        invariants.did("requeue")
    leases: list[dict[str, Any]] = []
    while len(leases) < 2:
        leases += session.claim(2)
    runs, fails = leases
    session.fail(fails, "second life")
    for _ in range(6):
        time.sleep(0.5)
        assert session.beat(runs)[0]["status"] == "renewed"
    session.complete(runs, "done")

    first, second = (product.ok("GET", f"/api/v1/tasks/{task}") for task in (runs["task_id"], fails["task_id"]))
    assert (first["state"], first["result"]) == ("succeeded", "done")
    assert second["state"] in {"scheduled", "queued"}
    assert (second["attempts"], second["attempts_allowed"]) == (1, 3)
    assert len(history(product, second["id"])) == 4, "the earlier life stays visible"
    assert "first life" in str(history(product, second["id"]))
    assert {name: second[name] for name in due} == due
    product.ok("POST", f"/api/v1/tasks/{second['id']}/cancel", {})
    invariants.did("cancel")
    session.goodbye()


@pytest.mark.parametrize(
    "payload",
    ["x" * 7_900, "x" * 8_100, "x" * 100_000, "x" * (2**20 - 2), "€" * 3_000],
    ids=["7.9k", "8.1k", "100k", "1M", "3-byte"],
)
def test_payloads_of_every_size_travel_whole(product: Product, invariants: Invariants, payload: str) -> None:
    session = Session(product, "carrier")
    (task,) = submit(product, {"payload": payload})
    lease = session.claim_one()
    assert lease["payload"] == payload
    status, answer = session.end(lease, "fail", error={"message": "é" * 25_000, "kind": "permanent"})
    assert status == 200, answer
    shown = product.ok("GET", f"/api/v1/tasks/{task}")
    assert shown["payload"] == payload
    assert shown["error"]["message"].startswith("é" * 20_000)
    session.goodbye()


def test_beyond_the_documented_limit_is_refused(product: Product, invariants: Invariants) -> None:
    task = {"tenant": "alpha", "class": "interactive", "payload": "x" * 2**20}
    status, answer = product.call("POST", "/api/v1/tasks", task)
    assert (status, answer["type"].rpartition("/")[2]) in {(413, "too-large"), (422, "validation")}


def test_six_hundred_requeues_and_the_longest_tenant_name(product: Product, invariants: Invariants) -> None:
    name = "t" * 63
    product.ok("POST", "/api/v1/tenants", {"slug": name})
    assert product.call("POST", "/api/v1/tenants", {"slug": name + "t"})[0] == 422
    ids = submit(product, *[{"tenant": name, "max_attempts": 1, "payload": number} for number in range(600)])
    session = Session(product, "breaker", 600)
    while Ledger(product).states().get("dead", 0) < 600:
        leases = session.claim(600, wait_s=2)
        outcomes = [
            {"task_id": lease["task_id"], "token": lease["token"], "outcome": "fail", "error": {"message": "no"}}
            for lease in leases
        ]
        answer = product.ok("POST", "/api/v1/completions", {"outcomes": outcomes})
        assert {item["status"] for item in answer["outcomes"]} <= {"accepted"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda task: product.call("POST", f"/api/v1/tasks/{task}/requeue", {}), ids))
    assert {status for status, _ in answers} == {200}
    invariants.did("requeue", 600)
    done = 0
    while done < 600:
        leases = session.claim(600, wait_s=2)
        outcomes = [{"task_id": lease["task_id"], "token": lease["token"], "outcome": "complete"} for lease in leases]
        product.ok("POST", "/api/v1/completions", {"outcomes": outcomes})
        done += len(leases)
    session.goodbye()


BURY = """
update task set state = 5, queued_at = null, finished_at = now(), attempts = 3, reason = 'max_attempts',
       fingerprint = 'bulk', error = '{"message": "no"}' where id = any(%(ids)s)
"""
MOVED = """
select count(*) filter (where state = 1) as queued, count(*) filter (where state = 5) as dead,
       (select done from bulk_job where id = %(job)s) as done,
       (select count(*) from audit_event where action = 'requeue' and target_kind = 'task' and not refused
          and target = any(%(ids)s::bigint[]::text[])) as told
  from task where id = any(%(ids)s)
"""


def test_a_bulk_job_goes_on_after_the_kill_of_its_process(product: Product, invariants: Invariants) -> None:
    ledger, count = Ledger(product), 150
    ids = submit(product, *[{"tenant": "gamma", "type": "bulk", "payload": number} for number in range(count)])
    ledger.execute(BURY, ids=ids)
    body = {"action": "requeue", "filter": {"tenant": "gamma", "type": "bulk"}, "rate_per_s": 60, "reason": "mended"}
    job = product.ok("POST", "/api/v1/bulk", body)["id"]
    killed, end = 0, time.monotonic() + 60
    while True:
        row = ledger.one(MOVED, ids=ids, job=job)
        assert row["queued"] + row["dead"] == count, "each task is dead or queued at any time"
        assert row["queued"] == row["done"] == row["told"], "what is told is what has moved"
        if killed < 2 and count / 5 * (2 * killed + 1) <= row["done"] < count:
            product.kill("reconciler")
            killed += 1
        if product.ok("GET", f"/api/v1/bulk/{job}")["state"] == "done":
            break
        assert time.monotonic() < end, row
        time.sleep(0.02)
    assert killed == 2
    assert ledger.one(MOVED, ids=ids, job=job) == {"queued": count, "dead": 0, "done": count, "told": count}
    invariants.did("requeue", count)
    again = product.ok("POST", "/api/v1/bulk", {**body, "action": "cancel", "rate_per_s": None})["id"]
    product.wait_for(lambda: product.ok("GET", f"/api/v1/bulk/{again}")["state"] == "done")
