"""The task search of the console over 1,000,000 tasks: every filter, first page, a rare and a frequent value each.

Aim: the slowest filter at most 300 ms at the 95th percentile, the count beside it included.
"""

import pytest

from dispatch.services import policy, task_search, upkeep
from tests import fleet
from tests.bench.report import Table, clock

ROUNDS = 10
MILLION = 1_000_000

pytestmark = pytest.mark.django_db(transaction=True)

FILL = """
INSERT INTO task (pool_id, work_class_id, tenant_id, lane_id, type, payload, state, cost_hint, enqueued_at, queued_at,
                  created_at, finished_at, error, fingerprint, reason, key)
SELECT a.pool_id, a.work_class_id, a.tenant_id, a.id, 'index', jsonb_build_object('repo', 'r' || n %% 5000, 'page', n),
       s.state, 1000000 * (n %% 50), now() - n * interval '1 second',
       CASE s.state WHEN 1 THEN now() - n * interval '1 second' END,
       now() - n * interval '1 second', CASE WHEN s.state > 3 THEN now() - n * interval '1 second' END,
       CASE s.state WHEN 5 THEN jsonb_build_object('message', 'page ' || n || ' timed out') END,
       CASE s.state WHEN 5 THEN 'f' || n %% 40 ELSE '' END, '', 'k' || n
  FROM generate_series(1, %s) n
  JOIN (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS many FROM lane) a
    ON a.place = n %% a.many,
       LATERAL (SELECT CASE WHEN n < 100000 THEN CASE WHEN n %% 20 = 0 THEN 5 ELSE 4 END
                            WHEN n %% 10 = 0 THEN 1 WHEN n %% 97 = 0 THEN 6 ELSE 4 END AS state) s
 ORDER BY n DESC
"""

FILTERS = [
    {},
    {"state": "queued"},
    {"state": "dead"},
    {"state": "held"},
    {"state": "leased"},
    {"state": "queued,dead"},
    {"class": "critical"},
    {"tenant": "alpha"},
    {"tenant": "alpha", "state": "queued"},
    {"tenant": "beta", "state": "cancelled"},
    {"user": "u3"},
    {"user": "nobody"},
    {"capability": "ocr"},
    {"tool": "crm"},
    {"worker": "w1"},
    {"type": "index"},
    {"type": "nothing"},
    {"error": "page 77777 timed"},
    {"error": "never said"},
    {"key": "k77777", "tenant": "alpha"},
    {"fingerprint": "f7", "state": "dead"},
    {"min_age_s": "600"},
    {"min_age_s": "900000"},
    {"min_cost": "45"},
    {"min_cost": "4500"},
    {"args.repo": "r77"},
    {"args.repo": "no such"},
    {"id": "5,77777"},
]


def bench_search(transactional_db: None, _migrated_rows: None) -> None:
    fleet.world()
    for tenant in ("alpha", "beta"):
        for name in ("critical", "background"):
            for user in range(10):
                fleet.put(1, tenant=tenant, work_class=name, user=f"u{user}", capabilities=["ocr"] if user == 9 else [])
    policy.create(fleet.ROOT, "tool", "crm", {})
    fleet.join("w1")
    fleet.sql(FILL, MILLION)
    upkeep.fold()
    fleet.sql("VACUUM ANALYZE")
    table, slowest = Table("Search 1,000,000 tasks: a page of 100"), 0.0
    counts = Table("… and its count")
    for given in FILTERS:
        name = " ".join(f"{key}:{value}" for key, value in given.items()) or "no filter"
        spent = []
        for _ in range(ROUNDS):
            page, _ = clock(lambda: task_search.search(fleet.ROOT, given))  # noqa: B023
            count, _ = clock(lambda: task_search.count(fleet.ROOT, given))  # noqa: B023
            table.add(name, page)
            counts.add(name, count)
            spent.append(page)
        slowest = max(slowest, sorted(spent)[int(0.95 * ROUNDS)])
    table.show()
    counts.show()
    print(f"\nslowest filter, 95th percentile: {slowest:.0f} ms (aim: at most 300)")
