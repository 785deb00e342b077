"""EXPLAIN guards: the hot statements never scan the backlog, with fresh statistics and with stale ones."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from dispatch.store import db
from tests import fleet

pytestmark = pytest.mark.django_db
QUEUED = 50_000
LANES = 40


@pytest.fixture
def backlog() -> list[int]:
    """50,000 queued rows in 40 lanes, and a few leases."""
    fleet.world()
    fleet.sql("ALTER TABLE task SET (autovacuum_enabled = off)")
    for n in range(LANES):
        fleet.put(1, user=f"u{n}")
    fleet.sql(
        "INSERT INTO task (pool_id, work_class_id, tenant_id, lane_id, payload, state, queued_at)"
        " SELECT l.pool_id, l.work_class_id, l.tenant_id, l.id, '{}', 1, now() FROM lane l,"
        " generate_series(1, %s) n",
        QUEUED // LANES,
    )
    session = fleet.join("w", slots=50).session_id
    return [lease.task_id for lease in fleet.hold(session, *fleet.put(20))]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def explain(name: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    raw = connection.connection
    with psycopg.ClientCursor(raw) as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + db.statements()[name], params)
        found = cursor.fetchone()[0]
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


BY_LANE = ("task_queued", "task_queued_age")


def scanned(plan: list[dict[str, Any]]) -> list[str]:
    """Whole scans of the task table, or of its queued part other than the first step of a skip scan."""
    found = []
    for node in plan:
        if node.get("Relation Name") == "task" and node["Node Type"] == "Seq Scan":
            found.append("Seq Scan")
        elif node.get("Index Name") in BY_LANE and "lane_id" not in node.get("Index Cond", "") and "Filter" in node:
            found.append(f"{node['Index Name']}: {node['Filter']}")
    return found


def statements(held: list[int]) -> dict[str, dict[str, Any]]:
    pool = fleet.pool_id()
    session = fleet.value("SELECT max(id) FROM worker_session")
    queued = [row[0] for row in fleet.sql("SELECT id FROM task WHERE state = 1 ORDER BY id LIMIT 20")]
    tokens = [row[0] for row in fleet.sql("SELECT token FROM lease ORDER BY task_id")]
    many = {"task_ids": held, "tokens": tokens}
    ends: dict[str, list[Any]] = {
        "states": [1], "outcomes": [2], "counted": [True], "lost": [True], "handback": [False], "delays": [0.0],
        "reasons": ["x"], "errors": [None], "results": [None], "costs": [1], "fingerprints": [None],
    }  # fmt: skip
    return {
        "snapshot_heads": {"pool_id": pool, "heads": 4},
        "snapshot_more_heads": {"lane_ids": [1, 2, 3], "heads": 100},
        "snapshot_oldest": {"lane_ids": [1, 2, 3]},
        "begin_cycle": {"pool_id": pool, "epoch": 0, "limit": 1000},
        "grant_leases": {
            "task_ids": queued, "session_ids": [session] * 20, "charges": [1] * 20, "tiers": ["W"] * 20,
            "pool_id": pool, "offer_ttl_s": 5.0, "channel": "x", "payloads": [],
        },
        "claiming_sessions": {"session_ids": [session], "after": [0]},
        "deliver_leases": {
            "task_ids": held, "session_ids": [session] * len(held), "claim_ids": [None] * len(held), "demand_ids": [],
        },
        "lease_answers": {"task_ids": held},
        "lock_ending": many,
        "end_leases": {**many, **{name: values * len(held) for name, values in ends.items()}},
        "ended_attempts": many,
        "expire_waiting": {"limit": 1000},
        "lock_due_leases": {"only": held, "skip": [], "limit": 1000},
        "sampled_pools": {},
        "idle_facts": {"session_id": session},
        "broken_leases": {},
        "drifted_lanes": {"deep": 100, "bound": 1000},
    }  # fmt: skip


def analyzed() -> None:
    fleet.sql("ANALYZE task")
    fleet.sql("ANALYZE lane")


def analyzed_when_nothing_was_queued() -> None:
    fleet.sql("UPDATE task SET state = 4 WHERE state = 1")
    analyzed()
    fleet.sql("UPDATE task SET state = 1 WHERE state = 4")


def never_analyzed() -> None:
    pass


@pytest.mark.parametrize("statistics", [analyzed, analyzed_when_nothing_was_queued, never_analyzed])
def test_no_hot_statement_scans_the_backlog(backlog: list[int], statistics: Callable[[], None]) -> None:
    statistics()
    bad = {name: found for name, params in statements(backlog).items() if (found := scanned(explain(name, params)))}
    assert bad == {}


def test_the_guard_sees_a_scan(backlog: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a statement that has to read everything is found out."""
    monkeypatch.setattr(db, "statements", lambda: {"bad": "SELECT count(*) FROM task WHERE payload = '{}'"})
    assert scanned(explain("bad", {})) == ["Seq Scan"]


def test_a_renewal_is_a_hot_update(backlog: list[int]) -> None:
    session = fleet.value("SELECT max(id) FROM worker_session")
    pairs = fleet.sql("SELECT task_id, token FROM lease")
    indexed = fleet.sql(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
        " WHERE i.indrelid = 'lease'::regclass"
    )
    assert {row[0] for row in indexed} == {"task_id", "session_id", "token"}
    assert fleet.status(fleet.beat(session, *pairs)) == ["renewed"] * len(pairs)
