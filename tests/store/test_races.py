"""Two connections and more: completion against reclaim, and all verbs at once without a deadlock."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from dispatch.errors import EvenflowError, LeaseLost
from dispatch.services import cancel, claim, dispatch, finish, heartbeat, reclaim, upkeep
from dispatch.services.messages import Beat, ClaimAnswer, ClaimRequest, Finish, Finished, HeartbeatRequest
from tests import fleet

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 60
STRESS_S = 5.0


def closing(work: Callable[[], None]) -> Callable[[], None]:
    """The work, then the end of its thread's connection."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    return run


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool
        for _ in range(12):
            pool.submit(closing(lambda: time.sleep(0.05)))


def test_completion_and_reclaim_in_the_same_instant(threads: ThreadPoolExecutor) -> None:
    """H10: exactly one side wins, never succeeded and then queued."""
    fleet.world()
    session = fleet.join(slots=1000).session_id
    tasks = fleet.put(ROUNDS * 4)
    leases = fleet.hold(session, *tasks)
    won = {"complete": 0, "reclaim": 0}
    for start in range(0, len(leases), 4):
        batch = leases[start : start + 4]
        fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s' WHERE task_id = ANY(%s)",
                  [lease.task_id for lease in batch])  # fmt: skip
        barrier = threading.Barrier(2)
        order = random.sample(batch, len(batch))

        def complete(barrier: threading.Barrier = barrier, order: list[fleet.DeliveredLease] = order) -> list[object]:
            barrier.wait()
            time.sleep(random.random() * 0.004)
            said = {"caller": fleet.AGENT, "outcome": "complete", "result": 7}
            return [*finish.finish_many([Finish(task_id=x.task_id, token=x.token, **said) for x in order])]

        def sweep(barrier: threading.Barrier = barrier) -> reclaim.SweepCounts:
            barrier.wait()
            time.sleep(random.random() * 0.004)
            return reclaim.sweep()

        answers, swept = threads.submit(complete), threads.submit(sweep)
        for lease, answer in zip(order, answers.result(30), strict=True):
            state = fleet.state(lease.task_id)
            if isinstance(answer, Finished):
                won["complete"] += 1
                assert (answer.state, state) == ("succeeded", 4)
            else:
                won["reclaim"] += 1
                assert isinstance(answer, LeaseLost)
                assert state == 1
        assert swept.result(30).skipped == 0
    assert sum(won.values()) == len(tasks)
    assert fleet.value("SELECT count(*) FROM attempt") == len(tasks)
    reclaim.sweep()
    assert fleet.value("SELECT count(*) FROM task WHERE state = 4") == won["complete"], "a success stays one"
    fleet.invariants()


class Stress:
    """Every verb from threads of its own until the time is over."""

    def __init__(self) -> None:
        self.until = time.monotonic() + STRESS_S
        self.sessions = [fleet.join(f"w{n}", slots=20).session_id for n in range(8)]
        self.held: dict[int, tuple[int, int]] = {}
        self.lock = threading.Lock()
        self.done = 0
        fleet.sql("UPDATE pool_leader SET epoch = 1")
        self.pool = fleet.pool_id()

    def forever(self, act: Callable[[random.Random], None], seed: int) -> Callable[[], None]:
        def run() -> None:
            chance = random.Random(seed)
            while time.monotonic() < self.until:
                act(chance)

        return closing(run)

    def some(self, chance: random.Random, most: int) -> list[tuple[int, tuple[int, int]]]:
        with self.lock:
            items = list(self.held.items())
        return chance.sample(items, min(len(items), chance.randint(1, most)))

    def submit(self, chance: random.Random) -> None:
        fleet.put(chance.randint(1, 60), tenant=chance.choice(["alpha", "beta"]), user=chance.choice(["ann", "bob"]),
                  work_class=chance.choice(["critical", "background"]), max_attempts=100)  # fmt: skip
        time.sleep(0.005)

    def claim(self, chance: random.Random) -> None:
        requests = [
            ClaimRequest(caller=fleet.AGENT, session_id=session, max=20, wait_s=1)
            for session in chance.sample(self.sessions, 4)
        ]
        answers = [answer for answer in claim.claim_many(requests) if isinstance(answer, ClaimAnswer)]
        with self.lock:
            for request, answer in zip(requests, answers, strict=True):
                for lease in answer.leases:
                    self.held[lease.task_id] = (lease.token, request.session_id)
        claim.unpark([answer.demand_id for answer in answers if answer.demand_id and chance.random() < 0.3])

    def finish(self, chance: random.Random) -> None:
        items = [
            Finish(caller=fleet.AGENT, task_id=task, token=token, error={"message": "x"},
                   outcome=chance.choice(["complete", "complete", "fail", "release"]))
            for task, (token, _) in self.some(chance, 40)
        ]  # fmt: skip
        answers = finish.finish_many(items)
        with self.lock:
            for item, answer in zip(items, answers, strict=True):
                self.done += isinstance(answer, Finished)
                if self.held.get(item.task_id, (0, 0))[0] == item.token:
                    del self.held[item.task_id]

    def beat(self, chance: random.Random) -> None:
        heartbeat.heartbeat_many([
            HeartbeatRequest(caller=fleet.AGENT, session_id=session, beats=(Beat(task_id=task, token=token),))
            for task, (token, session) in self.some(chance, 60)
        ])  # fmt: skip

    def expire(self, chance: random.Random) -> None:
        """Ordered, as all our statements are; some leases fall due and are swept, some tasks are due again."""
        fleet.sql(
            "WITH k AS MATERIALIZED"
            " (SELECT task_id FROM lease WHERE random() < 0.05 ORDER BY task_id FOR NO KEY UPDATE)"
            " UPDATE lease l SET expires_at = now() FROM k WHERE l.task_id = k.task_id"
        )
        fleet.sql(
            "WITH k AS MATERIALIZED (SELECT id FROM task WHERE state = 0 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)"
            " UPDATE task t SET run_at = now() FROM k WHERE t.id = k.id"
        )
        counts = reclaim.sweep(50)
        assert counts.skipped == 0

    def keep_up(self, chance: random.Random) -> None:
        upkeep.fold()
        upkeep.drop_dead_demand()
        assert upkeep.check_invariants() == {}
        time.sleep(0.05)

    def cancel(self, chance: random.Random) -> None:
        for task, _ in self.some(chance, 1):
            with contextlib.suppress(EvenflowError):
                cancel.cancel(fleet.ROOT, task, "stress")
        time.sleep(0.02)

    def dispatch(self, chance: random.Random) -> None:
        memory = dispatch.load_memory(self.pool)
        while time.monotonic() < self.until:
            if not dispatch.cycle(self.pool, 1, memory).more:
                time.sleep(0.002)


def test_all_verbs_at_once_neither_deadlock_nor_lose_a_task(threads: ThreadPoolExecutor) -> None:
    fleet.world()
    stress = Stress()
    before = fleet.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    acts = [stress.dispatch, stress.submit, stress.submit, stress.claim, stress.claim, stress.finish, stress.finish,
            stress.beat, stress.expire, stress.keep_up, stress.cancel]  # fmt: skip
    running = [threads.submit(stress.forever(act, seed)) for seed, act in enumerate(acts)]
    for future in running:
        future.result(STRESS_S * 10)  # a deadlock would be raised here
    fleet.invariants()
    assert fleet.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before
    assert stress.done > 100, "the test has to have done something"
    assert fleet.value("SELECT count(*) FROM attempt WHERE state = 4") == fleet.value(
        "SELECT count(*) FROM task WHERE state = 4"
    ), "each success once"
