"""A whole dispatch cycle of 1,000 assignments (snapshot, plan, write, commit) with 100,000 and 1,000,000 tasks queued
in 500 lanes, and the agents' verbs for the same 1,000 leases. Aim: < 150 ms a cycle, ratio at most 1.3.
"""

from typing import Any

import pytest

from dispatch.services import claim, detection, finish, heartbeat, sampling, slo, upkeep
from dispatch.services.messages import Beat, ClaimRequest, Finish, HeartbeatRequest
from tests import fleet
from tests.bench.report import Table, clock
from tests.services.leader import Leader, forget

SLOTS, SESSIONS = 1000, 50
TENANTS, USERS = 10, 25  # times two classes: 500 lanes
ROUNDS = 9

pytestmark = pytest.mark.django_db(transaction=True)

FILL = """
INSERT INTO task (pool_id, work_class_id, tenant_id, lane_id, type, payload, state, cost_hint, enqueued_at, queued_at)
SELECT a.pool_id, a.work_class_id, a.tenant_id, a.id, 'index', '{"page": 1}', 1, 1000000, now(), now()
  FROM generate_series(1, %s) n, lane a
"""


TEN_MINUTES = """
WITH s AS (
    SELECT now() - make_interval(secs => n) AS at, 1 AS step, c.id AS class_id, NULL::bigint AS tenant_id
      FROM generate_series(15, 800) n, work_class c
    UNION ALL
    SELECT date_bin('10 s', now(), '2000-01-01') - make_interval(secs => 10 * n), 10, x.class_id, x.tenant_id
      FROM generate_series(20, 63) n,
           (SELECT c.id, t.id FROM work_class c, tenant t UNION ALL SELECT NULL, NULL) x(class_id, tenant_id)
)
INSERT INTO queue_sample (at, step, pool_id, class_id, tenant_id, queued, running, dispatched, waits)
SELECT s.at, s.step, %s, s.class_id, s.tenant_id, 90, 50, 9, '{1,2,3,4,5,6,7,8}' FROM s
"""


class Floor:
    """Workers that take all they can get and finish it at once."""

    def __init__(self) -> None:
        forget()
        tenants = [f"t{n}" for n in range(TENANTS)]
        fleet.world(tenants, ("critical", "background"))
        for tenant in tenants:
            for work_class in ("critical", "background"):
                for n in range(USERS):
                    fleet.put(1, tenant=tenant, work_class=work_class, user=f"u{n}")
        self.sessions = [fleet.join(f"w{n}", slots=SLOTS // SESSIONS).session_id for n in range(SESSIONS)]
        self.leader = Leader()

    def fill(self, each: int) -> None:
        """So many more tasks in every lane, statistics and visibility as after a quiet minute."""
        fleet.sql(FILL, each)
        upkeep.fold()
        fleet.sql("VACUUM ANALYZE")

    def round(self, table: Table | None) -> None:
        """One turn of 1,000 tasks through every verb."""
        wants = [ClaimRequest(caller=fleet.AGENT, session_id=s, max=SLOTS, wait_s=30) for s in self.sessions]
        parked, answers = clock(lambda: claim.claim_many(wants))
        cycle, done = clock(self.leader.cycle)
        assert done.assigned == SLOTS
        again = [
            ClaimRequest(caller=fleet.AGENT, session_id=s, max=SLOTS, wait_s=30, demand_id=a.demand_id)
            for s, a in zip(self.sessions, answers, strict=True)
        ]
        claimed, answers = clock(lambda: claim.claim_many(again))
        leases = {s: a.leases for s, a in zip(self.sessions, answers, strict=True)}
        assert sum(map(len, leases.values())) == SLOTS
        beats = [HeartbeatRequest(caller=fleet.AGENT, session_id=s, beats=_beats(x)) for s, x in leases.items()]
        beat, _ = clock(lambda: heartbeat.heartbeat_many(beats))
        ends = [_end(lease) for found in leases.values() for lease in found]
        ended, _ = clock(lambda: finish.finish_many(ends))
        fold, _ = clock(upkeep.fold)
        if table is not None:
            table.add("park 50 claims", parked)
            table.add("cycle of 1,000 assignments", cycle)
            table.add("claim 1,000 leases", claimed)
            table.add("heartbeat 1,000 leases", beat)
            table.add("complete 1,000 leases", ended)
            table.add("fold lane counts", fold)


def _beats(leases: list[Any]) -> tuple[Beat, ...]:
    return tuple(Beat(task_id=lease.task_id, token=lease.token) for lease in leases)


def _end(lease: Any) -> Finish:
    return Finish(caller=fleet.AGENT, task_id=lease.task_id, token=lease.token, outcome="complete", result={"ok": True})


@pytest.fixture
def floor(transactional_db: None, _migrated_rows: None) -> Floor:
    return Floor()


def bench_cycle(floor: Floor) -> None:
    medians = []
    for each, name in ((200, "100,000"), (1800, "1,000,000")):
        floor.fill(each)
        table = Table(f"Dispatch of 1,000 tasks, {name} queued in 500 lanes")
        for turn in range(ROUNDS + 1):
            floor.round(table if turn else None)
        table.show()
        medians.append(table.median("cycle of 1,000 assignments"))
    print(f"\nten times the backlog: {medians[1] / medians[0]:.2f} x (aim: at most 1.3)")


def bench_idle_cycle(floor: Floor) -> None:
    """What a cycle costs when there is nothing to give: what a hint wakes the leader for."""
    floor.fill(20)
    table = Table("Cycle without a free slot, 500 lanes")
    for _ in range(ROUNDS):
        table.add("cycle", clock(floor.leader.cycle)[0])
    table.show()


def bench_sampling(floor: Floor) -> None:
    """What the sample of each second costs, and its roll-ups, with 500 lanes, 100,000 queued and 1,000 leases."""
    floor.fill(200)
    wants = [ClaimRequest(caller=fleet.AGENT, session_id=s, max=SLOTS, wait_s=30) for s in floor.sessions]
    claim.claim_many(wants)
    floor.leader.cycle()
    table = Table("Samples, 100,000 queued in 500 lanes, 1,000 leases")
    for _ in range(ROUNDS):
        fleet.sql("UPDATE sample_mark SET tenants_to = tenants_to - interval '10 s'")
        table.add("sample of classes, tenants and pool", clock(sampling.sample)[0])
        table.add("sample of classes", clock(sampling.sample)[0])
        table.add("roll up", clock(sampling.roll_up)[0])
    fleet.sql(TEN_MINUTES, fleet.pool_id())
    fleet.sql("VACUUM ANALYZE queue_sample")
    for _ in range(ROUNDS):
        table.add("all detectors over ten minutes", clock(detection.detect)[0])
        slo.forget()
        table.add("attainment over four windows", clock(lambda: slo.of_classes(fleet.pool_id()))[0])
    table.show()
