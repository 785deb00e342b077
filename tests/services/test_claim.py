"""Claim: deliver offers, replay, park, and say why nothing came."""

from datetime import timedelta

import pytest

from dispatch.errors import Forbidden, NotFound
from dispatch.services import claim, workers
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()


def test_an_offer_is_delivered_with_all_an_agent_needs() -> None:
    session = fleet.join(slots=2).session_id
    first, second = fleet.put(2, user="ann", type="index", max_runtime_s=60, progress_timeout_s=9, priority=3)
    fleet.offer(session, first, second, charged=2_500_000)
    leases = fleet.ask(session).leases
    assert [lease.task_id for lease in leases] == [first, second]
    lease = leases[0]
    assert (lease.attempt, lease.type, lease.payload, lease.work_class, lease.tenant, lease.user) == (
        1, "index", {"n": 1}, "critical", "alpha", "ann",
    )  # fmt: skip
    assert (lease.cost, lease.priority, lease.ttl_s, lease.progress_timeout_s, lease.max_runtime_s) == (
        2.5,
        3,
        30,
        9,
        60,
    )
    assert (lease.checkpoint, lease.journal, lease.deadline) == (None, [], None)
    expires, runtime_until = fleet.sql("SELECT expires_at - now(), runtime_until - now() FROM lease")[0]
    assert (expires, runtime_until) == (timedelta(seconds=30), timedelta(seconds=60))
    assert fleet.value("SELECT attempt FROM lease WHERE task_id = %s", first) == 1
    assert fleet.ask(session).leases == []


def test_max_is_cut_to_what_was_offered_and_the_rest_comes_with_the_next_claim() -> None:
    session = fleet.join(slots=3).session_id
    tasks = fleet.put(3)
    fleet.offer(session, *tasks)
    assert [lease.task_id for lease in fleet.ask(session, 2).leases] == tasks[:2]
    assert [lease.task_id for lease in fleet.ask(session, 1000).leases] == tasks[2:]


def test_one_answer_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "ANSWER_BYTES", 25_000)
    session = fleet.join(slots=5).session_id
    tasks = fleet.put(3, payload="x" * 10_000)
    fleet.offer(session, *tasks)
    assert len(fleet.ask(session).leases) == 2
    assert len(fleet.ask(session).leases) == 1


def test_a_payload_above_the_bound_still_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "ANSWER_BYTES", 10)
    session = fleet.join(slots=2).session_id
    fleet.offer(session, *fleet.put(2))
    assert len(fleet.ask(session).leases) == 1


def test_the_same_claim_id_gets_the_same_leases_while_they_live() -> None:
    session = fleet.join(slots=2).session_id
    first, second = fleet.put(2)
    fleet.offer(session, first)
    one = fleet.ask(session, claim_id="c1").leases
    fleet.offer(session, second)
    again = fleet.ask(session, claim_id="c1").leases
    assert [lease.token for lease in again] == [lease.token for lease in one]
    assert fleet.value("SELECT attempt FROM lease WHERE task_id = %s", first) == 1
    fleet.ended("complete", first, one[0].token)
    assert [lease.task_id for lease in fleet.ask(session, claim_id="c1").leases] == [second]


def test_an_empty_first_answer_is_not_replayed() -> None:
    session = fleet.join().session_id
    assert fleet.ask(session, claim_id="c1").leases == []
    (task,) = fleet.put()
    fleet.offer(session, task)
    assert [lease.task_id for lease in fleet.ask(session, claim_id="c1").leases] == [task]


def test_a_doubled_claim_in_one_batch_gets_the_same_leases() -> None:
    session = fleet.join(slots=2).session_id
    fleet.offer(session, *fleet.put(2))
    request = claim.ClaimRequest(caller=fleet.AGENT, session_id=session, max=1, wait_s=0, claim_id="c1")
    one, two = claim.claim_many([request, request])
    assert one.leases == two.leases
    assert len(one.leases) == 1


def test_claims_of_several_sessions_in_one_batch_never_share_a_lease() -> None:
    sessions = [fleet.join(f"w{n}", slots=2).session_id for n in range(3)]
    for session in sessions:
        fleet.offer(session, *fleet.put(2))
    batch = [claim.ClaimRequest(caller=fleet.AGENT, session_id=s, max=1, wait_s=0) for s in [*sessions, *sessions]]
    answers = claim.claim_many(batch)
    tokens = [lease.token for answer in answers for lease in answer.leases]
    assert len(tokens) == len(set(tokens)) == 6


def test_without_an_offer_the_claim_parks_and_can_be_taken_back() -> None:
    session = fleet.join(slots=3).session_id
    answer = fleet.ask(session, 5, wait_s=10, process_id=7)
    row = fleet.sql("SELECT id, session_id, wanted, process_id, until > now() + interval '10 s' FROM demand")
    assert row == [(answer.demand_id, session, 3, 7, True)]
    claim.unpark([answer.demand_id])
    assert fleet.sql("SELECT id FROM demand") == []


def test_no_wait_parks_nothing() -> None:
    session = fleet.join().session_id
    assert fleet.ask(session, wait_s=0).demand_id is None
    assert fleet.ask(session, wait_s=5, park=False).demand_id is None
    assert fleet.sql("SELECT id FROM demand") == []


def test_a_claim_that_waits_on_keeps_its_row_and_delivery_takes_it_away() -> None:
    session = fleet.join().session_id
    parked = fleet.ask(session, wait_s=10).demand_id
    assert fleet.ask(session, wait_s=10, demand_id=parked).demand_id == parked
    fleet.offer(session, *fleet.put())
    answer = fleet.ask(session, wait_s=10, demand_id=parked)
    assert len(answer.leases) == 1
    assert fleet.sql("SELECT id FROM demand") == []


def test_a_claim_whose_row_is_gone_parks_again() -> None:
    session = fleet.join().session_id
    parked = fleet.ask(session, wait_s=10).demand_id
    claim.unpark([parked])
    fresh = fleet.ask(session, wait_s=10, demand_id=parked).demand_id
    assert fresh != parked
    assert fleet.sql("SELECT id FROM demand") == [(fresh,)]


@pytest.mark.parametrize("session", [0, -1, 2**63, 10**30, 4711])
def test_a_session_that_does_not_exist_is_not_found(session: int) -> None:
    assert isinstance(fleet.ask(session), NotFound)


def test_only_the_opening_key_or_an_operator_may_claim() -> None:
    session = fleet.join().session_id
    assert isinstance(fleet.ask(session, caller=fleet.OTHER), NotFound)
    assert isinstance(fleet.ask(session, caller=fleet.key(1, "read")), Forbidden)
    assert isinstance(fleet.ask(session, caller=fleet.key(9, "operate", tenant_id=12)), NotFound)
    assert fleet.ask(session, caller=fleet.OPERATOR).leases == []


def test_a_claim_is_a_sign_of_life_and_a_day_without_one_ends_the_session() -> None:
    session = fleet.join().session_id
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '23 hours'")
    assert fleet.ask(session).leases == []
    assert fleet.value("SELECT last_seen_at = now() FROM worker_session") is True
    fleet.sql("UPDATE worker_session SET last_seen_at = now() - interval '24 hours 1 second'")
    assert isinstance(fleet.ask(session), NotFound)


def test_a_cancelled_offer_tells_its_agent_at_once() -> None:
    session = fleet.join().session_id
    (task,) = fleet.put()
    fleet.offer(session, task)
    fleet.sql("UPDATE task SET cancel_requested = true WHERE id = %s", task)
    (lease,) = fleet.ask(session).leases
    (answer,) = fleet.beat(session, (task, lease.token))
    assert answer.directive == "cancel"


def idle(session: int) -> str:
    return claim.idle_reason(session)[0]


def test_the_idle_reason_names_the_first_thing_in_the_way() -> None:
    session = fleet.join(caps=("code",)).session_id
    assert idle(session) == "no_work"
    fleet.put(capabilities=("gpu",))
    assert idle(session) == "no_eligible_work"
    (task,) = fleet.put(capabilities=("code",))
    assert idle(session) == "limits"
    fleet.sql("UPDATE work_class SET paused = true")
    assert idle(session) == "paused"
    fleet.sql("UPDATE work_class SET paused_until = now() - interval '1 s'")
    assert idle(session) == "limits"
    fleet.offer(session, task)
    assert idle(session) == "no_free_slot"
    fleet.sql("UPDATE worker SET draining = true")
    assert claim.idle_reason(session) == ("draining", "drain")
    assert fleet.ask(session).worker_directive == "drain"


def test_a_session_of_a_tenants_key_is_not_eligible_for_others_work() -> None:
    tenant = fleet.value("SELECT id FROM tenant WHERE slug = 'beta'")
    session = fleet.join(caller=fleet.key(8, tenant_id=tenant)).session_id
    fleet.put()
    assert idle(session) == "no_eligible_work"


def test_goodbye_ends_claims() -> None:
    session = fleet.join().session_id
    fleet.ask(session, wait_s=10)
    workers.goodbye(fleet.AGENT, session)
    assert fleet.sql("SELECT id FROM demand") == []
    assert isinstance(fleet.ask(session), NotFound)
