"""The common filters of the task list are served by their indexes, with a backlog that makes a scan expensive."""

from typing import Any

import pytest
from django.db import connection

from dispatch.models import Pool, Tenant, WorkClass
from dispatch.store import tasks
from tests.plans import plan_of
from tests.services.world import bury, lease, make_world, put

ROWS = 60_000

FILL = """
INSERT INTO task (pool_id, work_class_id, tenant_id, lane_id, payload, state, created_at, queued_at, finished_at, key)
SELECT t.pool_id, t.work_class_id, t.tenant_id, t.lane_id, '{}', s.state, now(), CASE WHEN s.state = 1 THEN now() END,
       CASE WHEN s.state > 3 THEN now() END, 'n' || n
  FROM (SELECT * FROM task WHERE state = 1 ORDER BY id LIMIT 1) t, generate_series(1, %s) n,
       LATERAL (SELECT CASE n %% 100 WHEN 0 THEN 1 WHEN 1 THEN 5 WHEN 2 THEN 6 ELSE 4 END AS state) s
"""


@pytest.fixture
def backlog(db: None) -> dict[str, Any]:
    make_world()
    put(), put(tenant="beta")
    lease(put().id)
    bury(put().id)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [ROWS])
        cursor.execute("ANALYZE task, lane, lease, worker_session")
    return {
        "tenant_ids": [Tenant.objects.get(slug="beta").pk],
        "class_id": WorkClass.objects.get(slug="background").pk,
        "pool_id": Pool.objects.get(slug="default").pk,
        "key": "n77",
        "worker": "w1",
        "fingerprint": ["abc"],
        "ids": [1, 2],
        "min_age_s": 60.0,
        "user": "-",
    }


CASES = [
    (["tenant_ids"], "-id", "task_tenant"),
    (["tenant_ids", "queued"], "-id", "task_"),
    (["tenant_ids", "dead"], "-id", "task_"),
    (["queued"], "-id", "task_"),
    (["dead"], "-id", "task_"),
    (["cancelled"], "-id", "task_cancelled"),
    (["leased"], "-id", "lease"),
    (["worker"], "-id", "lease"),
    (["class_id"], "-id", "task_class"),
    (["ids"], "-id", "task_pkey"),
    (["key"], "-id", "task_tenant_key"),
    (["fingerprint", "dead"], "-id", "task_d"),
    (["min_age_s"], "-id", "task_"),
    (["queued"], "queued_at", "task_"),
    (["dead"], "-finished_at", "task_died"),
    ([], "-id", "task_pkey"),
    ([], "id", "task_pkey"),
]


def test_no_list_scans_the_whole_table(backlog: dict[str, Any]) -> None:
    for filters, order, index in CASES:
        plan = plan_of(tasks.statement(filters, tasks.ORDERS[order], after=False), {**backlog, "limit": 101})
        assert "Seq Scan on task" not in plan, (filters, plan)
        assert index in plan, (filters, plan)
    query = tasks.statement(["tenant_ids"], tasks.ORDERS["-id"], after=True)
    plan = plan_of(query, {**backlog, "limit": 101, "after": 1000, "after_id": 1000})
    assert "(id < '1000'::bigint)" in plan, plan


WINDOWS = [
    ["type"],
    ["error"],
    ["arg_paths", "arg_values"],
    ["min_cost"],
    ["user", "succeeded"],
    ["tenant_ids", "queued"],
    ["class_id", "type"],
    ["dead", "error"],
    ["fingerprint", "dead"],
    ["queued", "type"],
    ["leased", "user"],
    ["worker", "type"],
    ["key", "type"],
    ["cancelled", "error"],
    [],
]


def test_no_search_looks_past_its_window(backlog: dict[str, Any]) -> None:
    """Whatever the filters, one index gives the window, the newest first, and nothing else of the table is read."""
    given = {**backlog, "type": "x", "error": "%x%", "arg_paths": ["a.b"], "arg_values": ["1"], "min_cost": 5}
    for names in WINDOWS:
        values = {name: given.get(name, True) for name in names}
        for after, up in ((False, False), (True, False), (True, True)):
            query = tasks.windowed(values, after=after, up=up)
            plan = plan_of(query, {**given, "limit": 101, "window": 20_000, "after": 30_000})
            assert "Seq Scan on task" not in plan, (names, plan)
            assert plan.count("task_") + plan.count("lease") >= 1, (names, plan)


def test_triage_reads_dead_letters_only(backlog: dict[str, Any]) -> None:
    given = {"tenants": None, "pool_id": None, "fingerprint": None, "limit": 50_000}
    for changes in ({}, {"tenants": backlog["tenant_ids"]}, {"fingerprint": "abc"}):
        plan = plan_of("triage_counts", given | changes)
        assert ("Seq Scan on task" not in plan and "using task_" in plan) or "on task_" in plan, plan
