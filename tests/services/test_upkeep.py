"""Folding, sampling, pauses that end, tidying, invariants."""

import pytest

from dispatch.services import pulse, sampling, upkeep
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()


def test_folding_moves_the_counts_and_changes_no_sum() -> None:
    fleet.put(3)
    one = fleet.held()
    fleet.ended("fail", one.task, one.token, error={"message": "x", "kind": "permanent"})
    upkeep.fold()
    fleet.put(2, work_class="background")
    upkeep.fold()
    assert fleet.sql("SELECT id FROM lane_delta") == []
    assert sorted(fleet.sql("SELECT queued, scheduled, held, dead FROM lane_depth")) == [(2, 0, 0, 0), (3, 0, 0, 1)]
    fleet.invariants()


def test_a_sample_counts_each_class() -> None:
    session = fleet.join(slots=2).session_id
    tasks = fleet.put(5)
    fleet.hold(session, *tasks[:2])
    fleet.sql("UPDATE task SET queued_at = now() - interval '7 s' WHERE state = 1")
    classes = dict(fleet.sql("SELECT slug, id FROM work_class"))
    fleet.sql(
        "INSERT INTO decision (pool_id, cycle_no, assigned, by_class, picks) VALUES (%s, 1, 2, %s::jsonb, '[]')",
        fleet.pool_id(),
        f'{{"{classes["critical"]}": 2}}',
    )
    sampling.sample()
    sampled = fleet.sql(
        "SELECT class_id, queued, running, oldest_age_s, dispatched FROM queue_sample ORDER BY class_id"
    )
    assert sampled == [(classes["critical"], 3, 2, 7.0, 2), (classes["background"], 0, 0, None, 0)]


def test_what_was_dispatched_is_sampled_once() -> None:
    class_id = fleet.value("SELECT id FROM work_class WHERE slug = 'critical'")

    def decide() -> None:
        fleet.sql(
            "INSERT INTO decision (pool_id, cycle_no, assigned, by_class, picks) VALUES (%s, 1, 2, %s::jsonb, '[]')",
            fleet.pool_id(),
            f'{{"{class_id}": 2}}',
        )

    counts = []
    for decisions in (1, 0, 2):
        for _ in range(decisions):
            decide()
        sampling.sample()
        counts.append(fleet.value("SELECT dispatched FROM queue_sample WHERE class_id = %s AND at = now()", class_id))
        fleet.age_samples(1)
    assert counts == [2, 0, 4]


@pytest.mark.parametrize("table", ["pool", "work_class", "tenant", "worker"])
def test_a_pause_ends_by_itself(table: str) -> None:
    fleet.join()
    fleet.sql(f"UPDATE {table} SET paused = true, paused_until = now() + interval '1 s', pause_reason = 'lunch'")
    assert upkeep.end_pauses() == 0
    fleet.sql(f"UPDATE {table} SET paused_until = now()")
    assert upkeep.end_pauses() >= 1
    ended = fleet.sql(f"SELECT DISTINCT paused, paused_until = now(), pause_reason FROM {table}")
    assert ended == [(False, True, "")], "the end stays: queue ages count from it"


def test_parked_claims_that_nobody_waits_behind_are_dropped() -> None:
    alive, dead = pulse.register_process("web"), pulse.register_process("web")
    fleet.sql("UPDATE process SET beat_at = now() - interval '11 s' WHERE id = %s", dead)
    session = fleet.join().session_id
    kept = [fleet.ask(session, wait_s=20, process_id=process).demand_id for process in (alive, None)]
    fleet.ask(session, wait_s=20, process_id=dead)
    old = fleet.ask(session, wait_s=20).demand_id
    fleet.sql("UPDATE demand SET until = now() - interval '6 s' WHERE id = %s", old)
    assert upkeep.drop_dead_demand() == 2
    assert [row[0] for row in fleet.sql("SELECT id FROM demand ORDER BY id")] == kept


def test_silent_sessions_close_but_never_under_a_lease() -> None:
    fleet.held()
    fleet.join("w2")
    fleet.join("w3")
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '25 hours' WHERE id <> (SELECT max(id) FROM"
              " worker_session)")  # fmt: skip
    assert upkeep.close_silent_sessions() == 1
    assert fleet.value("SELECT count(*) FROM worker_session WHERE closed_at IS NULL") == 2


def test_old_things_are_pruned_and_young_ones_stay() -> None:
    for kind, hours in (("web", 23), ("web", 25), ("dispatcher", 0), ("dispatcher", 2)):
        id_ = pulse.register_process(kind)
        fleet.sql("UPDATE process SET beat_at = now() - make_interval(hours => %s) WHERE id = %s", hours, id_)
    assert upkeep.prune() == 2
    assert fleet.value("SELECT count(*) FROM process") == 2


def test_broken_invariants_raise_one_alert_each_until_they_hold_again() -> None:
    one = fleet.held()
    assert upkeep.check_invariants() == {}
    fleet.sql("UPDATE task SET state = 1, queued_at = now()")
    (orphan,) = fleet.put()
    fleet.sql("UPDATE task SET state = 2 WHERE id = %s", orphan)
    fleet.sql("INSERT INTO lane_delta (lane_id, queued, scheduled, held, dead) SELECT id, 1, 0, 0, 0 FROM lane LIMIT 1")
    assert upkeep.check_invariants() == {"broken_leases": 1, "orphan_tasks": 1, "drifted_lanes": 1}
    upkeep.check_invariants()
    assert fleet.value("SELECT count(*) FROM alert WHERE resolved_at IS NULL") == 3
    fleet.sql("UPDATE task SET state = 2 WHERE id = %s", one.task)
    fleet.sql("UPDATE task SET state = 1 WHERE id = %s", orphan)
    fleet.sql("DELETE FROM lane_delta WHERE id = (SELECT max(id) FROM lane_delta WHERE queued = 1 AND scheduled = 0)")
    upkeep.check_invariants()
    assert fleet.value("SELECT count(*) FROM alert WHERE resolved_at IS NULL AND subject <> 'drifted_lanes'") == 0


@pytest.mark.parametrize("column", ["queued", "scheduled", "held", "dead"])
@pytest.mark.parametrize("wrong", [1, -1])
def test_each_count_that_drifts_from_its_rows_is_found(column: str, wrong: int) -> None:
    for state in (0, 1, 3, 5):
        (task,) = fleet.put()
        fleet.sql("UPDATE task SET state = %s, queued_at = NULL, finished_at = now() WHERE id = %s", state, task)
    upkeep.fold()
    assert upkeep.check_invariants() == {}
    fleet.sql(f"UPDATE lane_depth SET {column} = {column} + %s", wrong)
    assert upkeep.check_invariants() == {"drifted_lanes": 1}
    assert fleet.sql("SELECT rule, subject, severity FROM alert") == [("invariant", "drifted_lanes", "critical")]
    fleet.sql(f"UPDATE lane_depth SET {column} = {column} - %s", wrong)
    assert upkeep.check_invariants() == {}
    assert fleet.value("SELECT count(*) FROM alert WHERE resolved_at IS NULL") == 0


def test_rows_that_were_never_counted_are_found() -> None:
    (task,) = fleet.put()
    fleet.sql("UPDATE task SET state = 5, queued_at = NULL, finished_at = now() WHERE id = %s", task)
    fleet.sql("DELETE FROM lane_delta")
    assert upkeep.check_invariants() == {"drifted_lanes": 1}


def test_a_pulse_with_a_gap_counts_as_up_from_its_return() -> None:
    process = pulse.register_process("web", {"port": 1})
    fleet.sql("UPDATE process SET up_since = now() - interval '1 hour', beat_at = now() - interval '2 s'")
    assert pulse.beat(process)
    assert fleet.value("SELECT now() - up_since = interval '1 hour' FROM process") is True
    fleet.sql("UPDATE process SET beat_at = now() - interval '4 s'")
    assert pulse.beat(process, {"port": 2})
    assert fleet.sql("SELECT up_since = now(), info->>'port' FROM process") == [(True, "2")]


def test_a_pulse_without_a_row_has_to_register_again() -> None:
    process = pulse.register_process("reconciler")
    pulse.end(process)
    assert not pulse.beat(process)
