"""One dispatch cycle against PostgreSQL: fence, promotion, offers, limits, settlement, memory."""

from typing import Any

import pytest

from dispatch.services import dispatch
from tests import fleet
from tests.services.leader import Leader, forget, park, running

pytestmark = pytest.mark.django_db


@pytest.fixture
def leader() -> Leader:
    fleet.world()
    forget()
    return Leader()


def test_a_parked_claim_gets_an_offer_and_delivery_takes_the_demand(leader: Leader) -> None:
    session = fleet.join().session_id
    demand = park(session)
    tasks = fleet.put(3)
    assert leader.run() == 1
    offer = fleet.sql("SELECT task_id, session_id, delivered_at, expires_at - now() = interval '5 s', tier FROM lease")
    assert offer == [(tasks[0], session, None, True, "W")]
    assert leader.run() == 0, "one slot, one offer"
    (lease,) = fleet.ask(session, wait_s=10, demand_id=demand).leases
    assert lease.task_id == tasks[0]
    assert fleet.sql("SELECT id FROM demand") == []
    fleet.invariants()


def test_without_demand_nothing_is_dispatched(leader: Leader) -> None:
    fleet.join(slots=5)
    fleet.put(3)
    assert leader.run() == 0


def test_demand_of_a_dead_web_process_or_past_its_time_is_none(leader: Leader) -> None:
    session = fleet.join().session_id
    park(session)
    fleet.put()
    fleet.sql(
        "INSERT INTO process (kind, host, pid, info, beat_at) VALUES ('web', '', 1, '{}', now() - interval '4 s')"
    )
    fleet.sql("UPDATE demand SET process_id = (SELECT id FROM process)")
    assert leader.run() == 0
    fleet.sql("UPDATE process SET beat_at = now()")
    fleet.sql("UPDATE demand SET until = now()")
    assert leader.run() == 0
    fleet.sql("UPDATE demand SET until = now() + interval '1 s'")
    assert leader.run() == 1


@pytest.mark.parametrize("flag", ["draining", "quarantined", "paused"])
def test_a_worker_put_aside_gets_nothing(leader: Leader, flag: str) -> None:
    park(fleet.join().session_id)
    fleet.put()
    fleet.sql(f"UPDATE worker SET {flag} = true")
    assert leader.run() == 0
    fleet.sql(f"UPDATE worker SET {flag} = false")
    assert leader.run() == 1


@pytest.mark.parametrize("table", ["pool", "work_class", "tenant"])
def test_a_pause_stops_and_an_ended_one_does_not(leader: Leader, table: str) -> None:
    park(fleet.join().session_id)
    fleet.put()
    fleet.sql(f"UPDATE {table} SET paused = true, paused_until = now() + interval '1 s'")
    assert leader.run() == 0
    fleet.sql(f"UPDATE {table} SET paused_until = now() - interval '1 s'")
    assert leader.run() == 1


def test_claims_of_one_session_add_up_to_its_free_slots(leader: Leader) -> None:
    session = fleet.join(slots=3).session_id
    park(session, 2)
    park(session, 2)
    fleet.put(10)
    assert leader.run() == 3
    assert leader.run() == 0


def test_limits_hold_over_batches_and_fill_exactly(leader: Leader) -> None:
    fleet.sql("UPDATE tenant SET max = 3 WHERE slug = 'alpha'")
    fleet.sql("UPDATE pool SET budget = 7")
    for n in range(4):
        park(fleet.join(f"w{n}", slots=5).session_id)
    fleet.put(20)
    fleet.put(20, tenant="beta")
    assert leader.run() == 7
    assert running() == {"alpha": 3, "beta": 4}


def test_weights_divide_a_batch_even_when_few_heads_are_read_at_first(
    leader: Leader,
) -> None:
    leader.memory.lanes = 10**6
    fleet.sql("UPDATE work_class SET weight = 9 WHERE slug = 'critical'")
    park(fleet.join("big", slots=100).session_id)
    fleet.put(200)
    fleet.put(200, work_class="background")
    assert leader.cycle().assigned == 100
    assert running("work_class_id") == {"critical": 90, "background": 10}


def test_capabilities_decide_who_gets_what(leader: Leader) -> None:
    plain, gpu = fleet.join("plain").session_id, fleet.join("gpu", caps=("gpu", "code")).session_id
    park(plain)
    (needs,) = fleet.put(capabilities=("gpu",))
    assert leader.run() == 0
    park(gpu)
    assert leader.run() == 1
    assert fleet.sql("SELECT task_id, session_id FROM lease") == [(needs, gpu)]


def test_a_session_of_a_tenants_key_gets_that_tenants_tasks_only(leader: Leader) -> None:
    beta = fleet.value("SELECT id FROM tenant WHERE slug = 'beta'")
    bound = fleet.key(8, tenant_id=beta)
    session = fleet.join("bound", slots=5, caller=bound).session_id
    fleet.ask(session, wait_s=10, caller=bound)
    fleet.put(2)
    (theirs,) = fleet.put(tenant="beta")
    assert leader.run() == 1
    assert fleet.value("SELECT task_id FROM lease") == theirs


def test_due_tasks_are_promoted_in_their_old_place_and_keep_their_due_time_as_age(leader: Leader) -> None:
    (first,) = fleet.put()
    (later,) = fleet.put()
    fleet.sql("UPDATE task SET state = 0, queued_at = NULL, run_at = now() - interval '30 s' WHERE id = %s", first)
    assert leader.cycle().promoted == 1
    age = fleet.sql("SELECT id, run_at, now() - queued_at = interval '30 s' FROM task WHERE id = %s", first)
    assert age == [(first, None, True)]
    session = fleet.join().session_id
    park(session)
    leader.run()
    assert fleet.value("SELECT task_id FROM lease") == first
    assert fleet.state(later) == 1
    fleet.invariants()


def test_tasks_not_due_wait_and_the_cycle_says_until_when(leader: Leader) -> None:
    (task,) = fleet.put()
    fleet.sql("UPDATE task SET state = 0, run_at = now() + interval '20 s'")
    done = leader.cycle()
    assert (done.promoted, round(done.next_due_s or 0)) == (0, 20)
    assert fleet.state(task) == 0


def test_a_deposed_leader_writes_nothing(leader: Leader) -> None:
    park(fleet.join().session_id)
    fleet.put()
    Leader()
    with pytest.raises(dispatch.Deposed):
        leader.cycle()
    assert fleet.sql("SELECT task_id FROM lease") == []


def test_settlements_are_consumed_once_and_the_true_cost_is_learned(leader: Leader) -> None:
    one = fleet.held(type="index")
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '40 s'")
    fleet.ended("complete", one.task, one.token)
    assert leader.cycle().settled == 1
    assert leader.cycle().settled == 0
    assert fleet.sql("SELECT id FROM settlement") == []
    means = dict(fleet.sql("SELECT task_type, data->>'mean' FROM learned_cost WHERE task_type = 'index'"))
    assert means == {"index": "40000000"}


def test_overruns_are_charged_while_the_task_runs(leader: Leader) -> None:
    fleet.held()
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '100 s'")
    leader.cycle()
    assert fleet.value("SELECT charged FROM lease") == 100_000_000


def test_a_new_leader_finds_the_accounts_as_the_old_one_left_them(leader: Leader) -> None:
    park(fleet.join("w", slots=10).session_id)
    fleet.put(20)
    fleet.put(20, tenant="beta", work_class="background")
    assert leader.run() == 10
    heir = Leader()
    assert heir.memory.accounts.dump() == leader.memory.accounts.dump()


def test_a_failed_transaction_leaves_the_memory_as_it_was(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    park(fleet.join("w", slots=10).session_id)
    fleet.put(20)
    before = leader.memory.accounts.dump()

    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as broken:
        broken.setattr(dispatch, "_decision", fail)
        with pytest.raises(RuntimeError):
            leader.cycle()
    assert leader.memory.accounts.dump() == before
    assert fleet.sql("SELECT task_id FROM lease") == []
    assert leader.run() == 10


def test_a_task_taken_between_snapshot_and_write_charges_nobody(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    park(fleet.join("w", slots=2).session_id)
    first, second, third = fleet.put(3)
    grant = dispatch._grant

    def cancel_first(*given: Any) -> set[int]:
        fleet.sql("UPDATE task SET state = 6, queued_at = NULL WHERE id = %s", first)
        return grant(*given)

    monkeypatch.setattr(dispatch, "_grant", cancel_first)
    assert leader.run() == 2
    assert [row[0] for row in fleet.sql("SELECT task_id FROM lease ORDER BY 1")] == [second, third]
    (account,) = leader.memory.accounts.root.kids.values()
    scale = account.vt / fleet.value("SELECT sum(charged) FROM lease")
    fleet.invariants()
    # charges and virtual time stay in step; a charge for the task that was taken away would show in the first ratio
    monkeypatch.undo()
    park(fleet.join("w2").session_id)
    fleet.put()
    assert leader.run() == 1
    assert account.vt / fleet.value("SELECT sum(charged) FROM lease") == scale


def test_the_decision_record_names_picks_and_counts_by_class(leader: Leader) -> None:
    session = fleet.join("w", slots=2).session_id
    park(session)
    tasks = fleet.put(2)
    leader.cycle()
    assigned, by_class, picked = fleet.sql(
        "SELECT assigned, by_class = jsonb_build_object((SELECT id FROM work_class WHERE slug = 'critical')::text, 2),"
        " (SELECT jsonb_agg(p->'task' ORDER BY p->'task') FROM jsonb_array_elements(picks) p)::text FROM decision"
    )[0]
    assert (assigned, by_class, picked) == (2, True, str(tasks))
    assert fleet.value("SELECT cycle_ms > 0 AND last_cycle_at = now() FROM pool_leader") is True


def test_borrowers_are_asked_to_yield_for_an_unmet_floor(leader: Leader) -> None:
    fleet.sql("UPDATE work_class SET min = 2, preempt = true WHERE slug = 'critical'")
    session = fleet.join("w", slots=2).session_id
    fleet.hold(session, *fleet.put(2, work_class="background"))
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '61 s', charged = 61000000")
    fleet.put(5)
    assert leader.cycle().yields == 2
    assert fleet.sql("SELECT directive, directive_at = now() FROM lease") == [(1, True)] * 2
    assert leader.cycle().yields == 0, "asked once"
