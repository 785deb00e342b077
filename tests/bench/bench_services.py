"""The life cycle inside one process, without HTTP: park, dispatch, claim, complete, one after another.

Batches of 32 and 256 stand for what the hot plane collects from so many agents; the full fair policy is on. One thread
and one database connection do everything, so the rate is the inverse of what a task costs in all, client and server.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatch.services import claim, finish, upkeep
from dispatch.services.messages import ClaimRequest, Finish, TaskSpec
from dispatch.services.submit import submit
from tests import fleet
from tests.bench.report import Table
from tests.services.leader import Leader, forget

pytestmark = pytest.mark.django_db(transaction=True)

TENANTS = [f"t{n}" for n in range(10)]
CLASSES = ["critical", "background"]
SECONDS = 4.0
TICKS = os.sysconf("SC_CLK_TCK")


def fill(count: int) -> None:
    """Tasks over all tenants and classes, in calls of 1,000."""
    for start in range(0, count, 1000):
        submit(
            fleet.ROOT,
            [
                TaskSpec(
                    tenant=TENANTS[n % 10],
                    work_class=CLASSES[n % 2],
                    type="bench",
                    payload={"seq": n, "pad": "x" * 130},
                )
                for n in range(start, start + 1000)
            ],
        )


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of one run and its result; the collector runs as in production."""
    begun = time.perf_counter()
    result = work()
    return (time.perf_counter() - begun) * 1000, result


def cpu() -> tuple[float, float]:
    """Seconds of processor used so far by this process and by its database backend."""
    fields = Path(f"/proc/{fleet.value('SELECT pg_backend_pid()')}/stat").read_text().rpartition(")")[2].split()
    return time.process_time(), (int(fields[11]) + int(fields[12])) / TICKS


def turn(leader: Leader, sessions: list[int], table: Table) -> int:
    """One task for every session through its whole life; how many there were."""
    asked = [ClaimRequest(caller=fleet.AGENT, session_id=s, max=1, wait_s=30) for s in sessions]
    ms, parked = clock(lambda: claim.claim_many(asked))
    table.add("park", ms)
    ms, _ = clock(leader.cycle)
    table.add("cycle", ms)
    again = [
        ClaimRequest(caller=fleet.AGENT, session_id=s, max=1, wait_s=30, demand_id=p.demand_id)
        for s, p in zip(sessions, parked, strict=True)
    ]
    ms, answers = clock(lambda: claim.claim_many(again))
    table.add("claim", ms)
    ends = [_end(lease) for answer in answers for lease in answer.leases]
    ms, done = clock(lambda: finish.finish_many(ends))
    table.add("complete", ms)
    assert all(one.state == "succeeded" for one in done)
    return len(done)


def _end(lease: Any) -> Finish:
    return Finish(caller=fleet.AGENT, task_id=lease.task_id, token=lease.token, outcome="complete", result={"ok": True})


@pytest.mark.parametrize("agents", [8, 32, 256])
def bench_life(agents: int) -> None:
    forget()
    fleet.world(TENANTS, CLASSES)
    fill(20_000)
    upkeep.fold()
    fleet.sql("ANALYZE")
    sessions = [fleet.join(f"w{n}").session_id for n in range(agents)]
    leader = Leader()
    for _ in range(10):
        turn(leader, sessions, Table(""))
    table = Table(f"Life of a task inside one process, batches of {agents}")
    began, done, fold_at, used = time.perf_counter(), 0, time.perf_counter(), cpu()
    while time.perf_counter() - began < SECONDS:
        got = turn(leader, sessions, table)
        if not got:
            break
        done += got
        if time.perf_counter() - fold_at > 1:
            upkeep.fold()
            fold_at = time.perf_counter()
    seconds = time.perf_counter() - began
    table.show()
    client, server = (b - a for a, b in zip(used, cpu(), strict=True))
    print(f"{done / seconds:.0f} tasks/s; processor a task: {client / done * 1e6:.0f} us here,", end=" ")
    print(f"{server / done * 1e6:.0f} us in PostgreSQL")
