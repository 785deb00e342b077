"""Bulk jobs: frozen ids, pace, canary, commands, tenants, races and a kill in the middle."""

from typing import Any

import pytest
from django.db import connection

from dispatch.core.states import State
from dispatch.errors import Conflict, EvenflowError, Forbidden, Invalid, NotFound
from dispatch.models import AuditEvent, BulkItem, BulkJob, Task
from dispatch.services import bulk, bulk_plan, bulk_run, dead_letters, policy
from dispatch.services.requeue import requeue
from tests import fleet
from tests.services.test_races import together
from tests.services.world import ROOT, bury, key, lease, make_world, person, put

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def dead(count: int, tenant: str = "alpha", fingerprint: str = "timeout") -> list[int]:
    ids = fleet.put(count, tenant=tenant)
    for id_ in ids:
        bury(id_, fingerprint=fingerprint, error={"message": fingerprint})
    return ids


def make(filters: Any = None, action: str = "requeue", caller: Any = ROOT, **more: Any) -> dict[str, Any]:
    pace = {name: more.pop(name) for name in bulk.PACE if name in more}
    given = {"fingerprint": "timeout"} if filters is None else filters
    return bulk.create(caller, action, given, "mended", pace, **more)


def states(ids: list[int]) -> list[int]:
    return [fleet.state(id_) for id_ in ids]


def run(job_id: int) -> dict[str, Any]:
    bulk_run.advance()
    return bulk.get(ROOT, job_id)


def tick(job_id: int, seconds: float) -> dict[str, Any]:
    fleet.sql("UPDATE bulk_job SET paced_at = paced_at - make_interval(secs => %s)", seconds)
    return run(job_id)


def test_all_matching_move_and_nothing_else() -> None:
    mine, others, foreign = dead(60), dead(7, fingerprint="auth"), dead(40, "beta")
    job = make({"tenant": "alpha", "error": "timeout"})
    assert (job["matched"], job["done"], job["state"]) == (60, 0, "running")
    job = run(job["id"])
    assert (job["matched"], job["done"], job["skipped"], job["new"]) == (60, 60, [], 0)
    assert run(job["id"])["state"] == "done"
    assert set(states(mine)) == {State.QUEUED}
    assert set(states(others + foreign)) == {State.DEAD}
    entries = AuditEvent.objects.filter(action="requeue", target_kind="task")
    assert sorted(int(entry.target) for entry in entries) == mine, "one entry for each task"
    assert entries[0].before["fingerprint"] == "timeout"
    fleet.invariants()


def test_a_dry_run_freezes_and_from_runs_exactly_those() -> None:
    ids = dead(10)
    job = make(dry_run=True)
    assert (job["state"], job["matched"]) == ("dry_run", 10)
    assert run(job["id"])["done"] == 0
    late = dead(5)
    requeue(ROOT, ids[0])
    assert bulk.get(ROOT, job["id"])["new"] == 5
    started = bulk.start(ROOT, job["id"], {"rate_per_s": 1000.0})
    assert (started["id"], started["state"], started["new"]) == (job["id"], "running", 5)
    done = tick(job["id"], 1)
    assert (done["matched"], done["done"], done["new"]) == (10, 9, 5)
    assert done["skipped"] == [{"task_id": ids[0], "reason": "not dead any more"}]
    assert set(states(late)) == {State.DEAD}
    with pytest.raises(Conflict):
        bulk.start(ROOT, job["id"])


def test_a_rate_paces_by_the_clock_of_the_database() -> None:
    dead(20)
    job = make(rate_per_s=2.0)
    assert tick(job["id"], 1.0)["done"] == 2
    assert tick(job["id"], 0.5)["done"] == 3
    assert tick(job["id"], 3600)["done"] == 7, "an outage is not caught up in one go"


def test_a_canary_that_dies_again_stops_the_job() -> None:
    ids = dead(20)
    job = make(canary=2)
    assert job["state"] == "canary"
    assert run(job["id"])["done"] == 2
    assert (run(job["id"])["done"], run(job["id"])["state"]) == (2, "canary")
    bury(ids[0])
    fleet.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE id = %s", ids[1])
    job = run(job["id"])
    assert (job["state"], job["done"], job["ended_well"], job["dead_again"]) == ("stopped", 2, 1, 1)
    assert job["note"] == "1 of 2 that ended were dead again"
    assert set(states(ids[2:])) == {State.DEAD}


def test_a_canary_that_does_well_lets_the_rest_go_within_its_room() -> None:
    ids = dead(12)
    job = make(canary=2, max_in_flight=5)
    run(job["id"])
    fleet.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE id = ANY(%s)", ids[:2])
    assert (run(job["id"])["state"], bulk.get(ROOT, job["id"])["done"]) == ("running", 7)
    assert run(job["id"])["done"] == 7, "five are in flight"
    fleet.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE state = 1")
    assert run(job["id"])["done"] == 12


def test_pause_resume_abort() -> None:
    ids = dead(6)
    job = make(rate_per_s=1.0)
    tick(job["id"], 1)
    assert bulk.command(ROOT, job["id"], "pause")["state"] == "paused"
    assert tick(job["id"], 100)["done"] == 1
    with pytest.raises(Conflict):
        bulk.command(ROOT, job["id"], "pause")
    assert bulk.command(ROOT, job["id"], "resume")["state"] == "running"
    assert tick(job["id"], 1)["done"] == 2
    assert bulk.command(ROOT, job["id"], "abort")["state"] == "aborted"
    assert tick(job["id"], 100)["done"] == 2
    for verb in bulk.COMMANDS:
        with pytest.raises(Conflict):
            bulk.command(ROOT, job["id"], verb)
    assert states(ids) == [1, 1, 5, 5, 5, 5]


def test_a_kill_in_the_middle_leaves_each_task_dead_or_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = dead(30)
    job = make()
    monkeypatch.setattr(bulk_run, "BATCH", 10)
    bulk_run.step(job["id"])
    real = bulk_run.db.execute

    def killed(name: str, params: Any = None) -> int:
        if name == "advance_bulk":
            connection.close()  # what a kill looks like to the database
            raise RuntimeError("killed")
        return real(name, params)

    monkeypatch.setattr(bulk_run.db, "execute", killed)
    with pytest.raises(Exception, match=r"killed|closed"):
        bulk_run.step(job["id"])
    monkeypatch.undo()
    assert states(ids).count(1) == BulkItem.objects.filter(state=1).count() == bulk.get(ROOT, job["id"])["done"] == 10
    assert run(job["id"])["done"] == 30
    assert set(states(ids)) == {1}
    assert AuditEvent.objects.filter(action="requeue", target_kind="task").count() == 30
    fleet.invariants()


def test_two_people_requeue_the_same_fifty_at_once() -> None:
    ids = dead(50)
    jobs = together(lambda: make(), lambda: make())
    together(bulk_run.advance, bulk_run.advance, lambda: requeue(ROOT, ids[7]), lambda: requeue(ROOT, ids[7]))
    bulk_run.advance()
    found = [bulk.get(ROOT, job["id"]) for job in jobs]
    single = AuditEvent.objects.filter(action="requeue", target=str(ids[7])).count()
    assert single == 1, "one effective entry for each task"
    assert AuditEvent.objects.filter(action="requeue", target_kind="task").count() == 50
    assert 49 <= sum(job["done"] for job in found) <= 50
    assert sum(job["done"] + len(job["skipped"]) for job in found) == 100
    assert set(states(ids)) == {1}
    fleet.invariants()


def test_discard_and_cancel() -> None:
    gone = dead(3)
    job = make(action="discard")
    run(job["id"])
    assert set(states(gone)) == {State.CANCELLED}
    assert Task.objects.get(pk=gone[0]).reason == "mended"
    waiting, running, finished = put(type="resize").id, put(type="resize").id, put(type="resize").id
    lease(running)
    job = make({"type": "resize"}, action="cancel")
    fleet.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE id = %s", finished)
    job = run(job["id"])
    assert (job["matched"], job["done"]) == (3, 2)
    assert job["skipped"] == [{"task_id": finished, "reason": "The task is succeeded already."}]
    assert (fleet.state(waiting), fleet.state(running)) == (State.CANCELLED, State.LEASED)
    assert Task.objects.get(pk=running).cancel_requested
    fleet.invariants()


@pytest.mark.parametrize(
    ("field", "filters"),
    [
        ("filter", {}),
        ("filter", {"tenant": None}),
        ("filter.colour", {"colour": "red"}),
        ("filter.tenant", {"tenant": "nobody"}),
        ("filter.state", {"state": "lost"}),
        ("filter.order", {"order": "id"}),
    ],
)
def test_an_empty_or_unknown_filter_is_refused(field: str, filters: dict[str, Any]) -> None:
    ids = dead(3)
    with pytest.raises(Invalid) as refused:
        make(filters)
    assert [error["field"] for error in refused.value.errors] == [field]
    assert not BulkJob.objects.exists()
    assert set(states(ids)) == {State.DEAD}


def test_bad_paces_and_reasons_are_refused() -> None:
    for field, more in (
        ("rate_per_s", {"rate_per_s": 0}),
        ("max_in_flight", {"max_in_flight": 0}),
        ("canary", {"canary": True}),
        ("stop_above", {"stop_above": 1.1}),
        ("canary", {"canary": 3, "action": "cancel"}),
        ("action", {"action": "delete"}),
    ):
        with pytest.raises(Invalid) as refused:
            make({"tenant": "alpha"}, **more)
        assert [error["field"] for error in refused.value.errors] == [field]
    with pytest.raises(Invalid):
        bulk.create(ROOT, "requeue", {"tenant": "alpha"}, " ")


def test_a_tenant_touches_its_own_only_and_sees_only_its_jobs() -> None:
    mine, foreign = dead(3), dead(4, "beta")
    dan, bea = person(alpha="admin"), person(beta="admin")
    agent = key("operate", "read", tenant="alpha")
    whole = make(dry_run=True)
    assert whole["matched"] == 7
    for caller in (dan, agent):
        with pytest.raises(Invalid) as refused:
            make({"tenant": "beta"}, caller=caller)
        assert refused.value.errors == [{"field": "filter.tenant", "message": "there is no such tenant"}]
        with pytest.raises(Invalid) as unknown:
            make({"tenant": "nobody"}, caller=caller)
        assert unknown.value.errors == refused.value.errors
        job = make(caller=caller, dry_run=True)
        assert job["matched"] == 3
        assert [one["id"] for one in bulk.list_(bea).items] == []
        assert whole["id"] not in [one["id"] for one in bulk.list_(caller).items]
        for verb in (lambda id_: bulk.get(caller, id_), lambda id_: bulk.command(caller, id_, "abort")):  # noqa: B023
            for id_ in (whole["id"], 10**9):
                with pytest.raises(NotFound) as missing:
                    verb(id_)
                assert missing.value.detail == "There is no such job."
        with pytest.raises(NotFound):
            bulk.start(bea, job["id"])
    bulk.start(dan, job["id"])
    bulk_run.advance()
    assert set(states(mine)) == {1}
    assert set(states(foreign)) == {State.DEAD}
    for caller in (key("read"), person(alpha="member"), person("auditor")):
        with pytest.raises(Forbidden):
            make(caller=caller)
    with pytest.raises(EvenflowError):
        bulk.start(person("auditor"), whole["id"])
    assert make({"tenant": "beta", "state": "queued"}, "cancel", person(beta="member"))["matched"] == 0


def test_a_key_of_a_pool_stays_in_it() -> None:
    dead(2)
    policy.create(ROOT, "class", "there", {"pool": "other"})
    there = fleet.put(1, work_class="there", pool="other")
    bury(there[0], fingerprint="timeout")
    job = make(caller=key("operate", pool="other"))
    assert job["matched"] == 1
    with pytest.raises(NotFound):
        bulk.get(key("read", pool="default"), job["id"])


def test_dead_letters_by_group_and_by_filter() -> None:
    dead(3)
    dead(2, "beta")
    auth = dead(1, fingerprint="auth")
    groups = dead_letters.list_groups(ROOT).items
    assert [(one["fingerprint"], one["count"], one["new_1h"]) for one in groups] == [("timeout", 5, 5), ("auth", 1, 1)]
    first = dead_letters.list_groups(ROOT, 1)
    rest = dead_letters.list_groups(ROOT, 1, first.next_cursor)
    assert ([one["fingerprint"] for one in rest.items], rest.next_cursor) == (["auth"], None)
    alpha = key("read", tenant="alpha")
    assert [one["count"] for one in dead_letters.list_groups(alpha).items] == [3, 1]
    assert [one["id"] for one in dead_letters.list_dead(ROOT, {"fingerprint": "auth"}).items] == auth
    assert len(dead_letters.list_dead(alpha, {"class": "critical"}).items) == 4
    for filters in ({"state": "queued"}, {"tenant": "beta"}, {"colour": "red"}):
        with pytest.raises(Invalid):
            dead_letters.list_dead(alpha, filters)


def test_what_has_not_started_is_taken_back() -> None:
    ids = dead(6)
    before = Task.objects.get(pk=ids[0])
    job = make({"tenant": "alpha", "fingerprint": "timeout"})
    run(job["id"])
    lease(ids[1])
    fleet.sql("UPDATE task SET state = 4, queued_at = NULL, finished_at = now() WHERE id = %s", ids[2])
    found = bulk.undo(ROOT, job["id"], "too early")
    assert (found["undone"], found["done"], found["skipped_count"]) == (4, 2, 4)
    assert states(ids) == [5, 2, 4, 5, 5, 5]
    after = Task.objects.get(pk=ids[0])
    for name in ("reason", "error", "fingerprint", "attempts", "finished_at"):
        assert getattr(after, name) == getattr(before, name), name
    assert AuditEvent.objects.filter(action="undo_requeue", reason="too early").count() == 4
    assert bulk.undo(ROOT, job["id"])["undone"] == 0, "twice is once"
    fleet.invariants()
    again = make({"id": f"{ids[0]},{ids[3]}"})
    run(again["id"])
    assert states([ids[0], ids[3], ids[4]]) == [1, 1, 5]


def test_a_dry_run_says_what_it_would_do_and_needs_its_reason_only_to_start() -> None:
    mine, foreign = dead(5), dead(2, "beta")
    job = bulk.create(ROOT, "requeue", {"fingerprint": "timeout"}, "", dry_run=True)
    requeue(ROOT, mine[0])
    fleet.sql("UPDATE task SET deadline = now() - interval '1 hour' WHERE id = %s", mine[1])
    policy.patch(ROOT, "tenant", "beta", 1, {"paused": True}, "closed")
    split = bulk_plan.dry_run(ROOT, job["id"])
    assert [(one["tenant"], one["count"]) for one in split["eligible"]] == [("alpha", 4), ("beta", 2)]
    assert [(one["verdict"], one["count"]) for one in split["skipped"]] == [("not dead any more", 1)]
    assert (split["ready"], split["late"], split["stopped"]) == (6, 1, 2)
    assert [row["id"] for row in bulk_plan.first(ROOT, job["id"], 2)] == mine[:2]
    assert bulk_plan.delays(split) == [("critical", None)]
    split["now"] = {"critical": {"starts_per_s": 0.5, "runtime_s": 10.0}}
    assert bulk_plan.delays(split) == [("critical", 12.0)]
    found = bulk_plan.estimate(split, {"rate_per_s": 2, "max_in_flight": 2, "canary": 2})
    assert (found["binds"], found["seconds"], found["canary_s"]) == ("room", 30.0, 10.0)
    assert bulk_plan.estimate(split, {"rate_per_s": 0.1})["binds"] == "rate"
    with pytest.raises(Invalid) as refused:
        bulk.start(ROOT, job["id"])
    assert [one["field"] for one in refused.value.errors] == ["reason"]
    bulk.start(ROOT, job["id"], reason="mended")
    run(job["id"])
    rows = list(bulk_plan.results(ROOT, job["id"]))
    assert [row["item"] for row in rows] == ["skipped", *["done"] * 6]
    assert rows[0]["reason"] == "not dead any more" and {row["tenant"] for row in rows} == {"alpha", "beta"}
    assert states(foreign) == [1, 1]
