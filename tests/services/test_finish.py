"""Complete, fail, release: fenced by the token, repeatable, counted as contract.md says."""

from datetime import timedelta
from typing import Any

import pytest

from dispatch.errors import Invalid, LeaseLost, NotFound
from dispatch.services import finish
from dispatch.services.edit_task import edit_task
from dispatch.services.messages import Finish, Finished
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    fleet.world()


FIELDS = (
    "state attempts losses handbacks starts reason result error fingerprint last_token run_at queued_at finished_at"
)


def task(task_id: int) -> dict[str, Any]:
    row = fleet.sql(f"SELECT {FIELDS.replace(' ', ', ')} FROM task WHERE id = %s", task_id)[0]
    return dict(zip(FIELDS.split(), row, strict=True))


def test_complete_stores_the_result_frees_the_slot_and_leaves_an_attempt_and_a_settlement() -> None:
    one = fleet.held(cost=4)
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '3 seconds'")
    assert fleet.ended("complete", one.task, one.token, result={"ok": True, "n": 2**62}) == "succeeded"
    row = task(one.task)
    assert (row["state"], row["starts"], row["attempts"], row["reason"]) == (4, 1, 0, "")
    assert row["finished_at"] is not None
    assert fleet.value('SELECT result = \'{"ok": true, "n": 4611686018427387904}\'::jsonb FROM task') is True
    attempt = fleet.sql("SELECT token, attempt, outcome, counted, cost, state, worker_name FROM attempt")
    assert attempt == [(one.token, 1, 0, False, 3_000_000, 4, "w1")]
    settlement = fleet.sql("SELECT charged, actual, hint, outcome FROM settlement")
    assert settlement == [(1_000_000, 3_000_000, 4_000_000, 0)]
    fleet.invariants()


def test_a_reported_cost_is_the_cost() -> None:
    one = fleet.held()
    fleet.ended("complete", one.task, one.token, cost=2.25)
    assert fleet.value("SELECT actual FROM settlement") == 2_250_000


def test_a_repeated_call_gets_the_same_answer_even_when_the_task_went_on() -> None:
    one = fleet.held()
    assert fleet.ended("fail", one.task, one.token) == "scheduled"
    fleet.sql("UPDATE task SET state = 1, queued_at = now(), run_at = NULL")
    (lease,) = fleet.hold(fleet.join("w2").session_id, one.task)
    assert fleet.ended("fail", one.task, one.token) == "scheduled"
    assert fleet.ended("complete", one.task, lease.token) == "succeeded"
    assert fleet.ended("complete", one.task, lease.token) == "succeeded"
    assert fleet.ended("fail", one.task, one.token) == "scheduled"
    assert fleet.value("SELECT count(*) FROM attempt") == 2
    assert fleet.value("SELECT count(*) FROM settlement") == 2


def test_another_verb_with_a_used_token_is_lost_and_kept_as_evidence() -> None:
    one = fleet.held()
    fleet.ended("fail", one.task, one.token)
    assert isinstance(fleet.end("complete", one.task, one.token, result="late", cost=1), LeaseLost)
    assert isinstance(fleet.end("complete", one.task, one.token, result="later"), LeaseLost)
    late = fleet.value('SELECT late = \'{"outcome": "complete", "result": "late", "cost": 1}\' FROM attempt')
    assert late is True
    assert task(one.task)["result"] is None


def test_stale_and_unknown_tokens_are_lost_and_unknown_tasks_not_found() -> None:
    one = fleet.held()
    for verb in ("complete", "fail", "release"):
        assert isinstance(fleet.end(verb, one.task, one.token + 1), LeaseLost)
        assert isinstance(fleet.end(verb, one.task, 0), LeaseLost)
        assert isinstance(fleet.end(verb, one.task, 2**70), LeaseLost)
        assert isinstance(fleet.end(verb, 10**12, one.token), NotFound)
        assert isinstance(fleet.end(verb, 2**70, one.token), NotFound)
    assert fleet.state(one.task) == 2


def test_a_token_of_an_offer_that_was_not_delivered_ends_nothing() -> None:
    session = fleet.join().session_id
    (id_,) = fleet.put()
    fleet.offer(session, id_)
    assert isinstance(fleet.end("complete", id_, fleet.value("SELECT token FROM lease")), LeaseLost)


def test_a_foreign_key_loses_an_operator_may_and_a_stranger_finds_nothing() -> None:
    one = fleet.held()
    assert isinstance(fleet.end("complete", one.task, one.token, caller=fleet.OTHER), LeaseLost)
    beta = fleet.value("SELECT id FROM tenant WHERE slug = 'beta'")
    stranger = fleet.key(5, tenant_id=beta)
    assert isinstance(fleet.end("complete", one.task, one.token, caller=stranger), NotFound)
    assert fleet.value("SELECT count(*) FROM attempt") == 0
    assert fleet.ended("complete", one.task, one.token, caller=fleet.OPERATOR) == "succeeded"
    assert isinstance(fleet.end("complete", one.task, one.token, caller=fleet.OTHER), LeaseLost)
    assert fleet.value("SELECT late FROM attempt") is None, "a foreigner leaves no evidence"


def test_a_failure_backs_off_keeps_its_place_and_dies_at_the_limit() -> None:
    one = fleet.held(max_attempts=2)
    before = fleet.value("SELECT enqueued_at FROM task")
    assert fleet.ended("fail", one.task, one.token, error={"message": "no route"}) == "scheduled"
    row = task(one.task)
    assert (row["attempts"], row["queued_at"]) == (1, None)
    assert fleet.value("SELECT run_at - now() BETWEEN interval '3.7 s' AND interval '5 s' FROM task") is True
    assert fleet.value("SELECT enqueued_at FROM task") == before
    fleet.sql("UPDATE task SET state = 1, queued_at = now(), run_at = NULL")
    (lease,) = fleet.hold(fleet.join("w2").session_id, one.task)
    assert lease.attempt == 2
    assert fleet.ended("fail", one.task, lease.token, error={"message": "no route"}) == "dead"
    row = task(one.task)
    assert (row["state"], row["attempts"], row["reason"]) == (5, 2, "max_attempts")
    assert fleet.value("SELECT error->>'message' FROM task") == "no route"
    assert len(row["fingerprint"]) == 16
    assert fleet.sql("SELECT outcome, counted, state FROM attempt ORDER BY id") == [(1, True, 0), (1, True, 5)]
    fleet.invariants()


def test_a_permanent_failure_is_dead_at_once() -> None:
    one = fleet.held()
    assert fleet.ended("fail", one.task, one.token, error={"message": "bad input", "kind": "permanent"}) == "dead"
    assert task(one.task)["reason"] == "permanent"


def test_retry_after_is_a_lower_bound_of_the_back_off_capped_at_its_maximum() -> None:
    one, two = fleet.held(), fleet.held("w2")
    fleet.ended("fail", one.task, one.token, retry_after_s=60)
    fleet.ended("fail", two.task, two.token, retry_after_s=10**6)
    waits = [row[0] for row in fleet.sql("SELECT run_at - now() FROM task ORDER BY id")]
    assert waits == [timedelta(seconds=60), timedelta(seconds=300)]


def test_a_release_requeues_at_once_uncounted_with_its_checkpoint() -> None:
    one = fleet.held()
    answer = fleet.end(
        "release", one.task, one.token, reason="shutting down", checkpoint={"page": 7}, has_checkpoint=True
    )
    assert answer == Finished(state="queued")
    row = task(one.task)
    assert (row["attempts"], row["handbacks"], row["starts"], row["reason"]) == (0, 1, 1, "shutting down")
    (lease,) = fleet.hold(fleet.join("w2").session_id, one.task)
    assert (lease.attempt, lease.checkpoint, lease.journal) == (2, {"page": 7}, [])


def test_too_many_handbacks_hold_the_task_with_an_alert() -> None:
    fleet.sql("UPDATE pool SET max_handbacks = 2")
    one = fleet.held()
    assert fleet.ended("release", one.task, one.token) == "queued"
    (lease,) = fleet.hold(one.session, one.task)
    assert fleet.ended("release", one.task, lease.token) == "held"
    assert task(one.task)["reason"] == "max_handbacks"
    assert fleet.sql("SELECT rule, subject FROM alert") == [("max_handbacks", f"task:{one.task}")]
    edit_task(fleet.ROOT, one.task, {"held": False}, "the agent is repaired")
    (lease,) = fleet.hold(one.session, one.task)
    assert fleet.ended("release", one.task, lease.token) == "queued", "it may be handed back as often again"
    assert fleet.value("SELECT handbacks FROM task") == 1
    fleet.invariants()


def tool(slug: str) -> Any:
    return fleet.value("SELECT round(extract(epoch FROM cooldown_until - now()))::int FROM tool WHERE slug = %s", slug)


@pytest.fixture
def tools() -> None:
    for slug in ("crm", "mail"):
        fleet.policy.create(fleet.ROOT, "tool", slug, {})


LIMITED = {"message": "429", "kind": "tool_limited"}


@pytest.mark.usefixtures("tools")
def test_a_limited_tool_cools_down_for_everybody_and_nothing_is_counted() -> None:
    one, two = fleet.held(tools=("crm",)), fleet.held("w2", tools=("crm", "mail"))
    assert fleet.ended("fail", one.task, one.token, error=LIMITED) == "scheduled"
    assert (tool("crm"), tool("mail")) == (60, None)
    assert (task(one.task)["attempts"], task(one.task)["handbacks"]) == (0, 1)
    assert fleet.value("SELECT run_at - now() FROM task WHERE id = %s", one.task) == timedelta(seconds=60)
    fleet.ended("fail", two.task, two.token, error=LIMITED, tool="crm", retry_after_s=5)
    assert tool("crm") == 60, "a cooldown is never shortened"
    three = fleet.held("w3", tools=("crm", "mail"))
    fleet.ended("fail", three.task, three.token, error=LIMITED, retry_after_s=500)
    assert (tool("crm"), tool("mail")) == (60, None), "with two tools and no name nobody can tell"


@pytest.mark.usefixtures("tools")
def test_a_tool_that_does_not_exist_is_refused_with_its_field() -> None:
    one = fleet.held(tools=("crm",))
    answer = fleet.end("fail", one.task, one.token, error=LIMITED, tool="nope")
    assert isinstance(answer, Invalid)
    assert answer.errors[0]["field"] == "tool"
    assert fleet.state(one.task) == 2


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_every_end_after_a_requested_cancel_is_cancelled(verb: str) -> None:
    one = fleet.held()
    fleet.sql("UPDATE task SET cancel_requested = true, cancel_reason = 'wrong input'")
    fields = {"result": "kept"} if verb == "complete" else {}
    assert fleet.ended(verb, one.task, one.token, **fields) == "cancelled"
    assert fleet.ended(verb, one.task, one.token, **fields) == "cancelled"
    row = task(one.task)
    assert (row["state"], row["attempts"], row["reason"]) == (6, 0, "wrong input")
    assert row["result"] == ('"kept"' if verb == "complete" else None)
    assert fleet.sql("SELECT outcome, counted FROM attempt") == [(11, False)]
    fleet.invariants()


def test_what_cannot_be_stored_is_cleaned_and_marked() -> None:
    one, two, three = fleet.held(), fleet.held("w2"), fleet.held("w3")
    assert fleet.end("complete", one.task, one.token, result={"a\0": ["b\0", "\ud800"]}) == Finished(
        state="succeeded", sanitized=True
    )
    assert fleet.value('SELECT result = \'{"a�": ["b�", "�"]}\' FROM task WHERE id = %s', one.task) is True
    answer = fleet.end("fail", two.task, two.token, error={"message": "x\0y", "stack": "é" * 40_000})
    assert answer == Finished(state="scheduled", sanitized=True)
    message, stack = fleet.sql("SELECT error->>'message', error->>'stack' FROM task WHERE id = %s", two.task)[0]
    assert message == "x�y"
    assert stack.endswith("[cut]")
    assert len(stack.encode()) <= finish.ERROR_BYTES
    assert fleet.end("release", three.task, three.token, reason="\0").sanitized


def test_a_batch_answers_each_on_its_own_and_a_double_like_the_first() -> None:
    session = fleet.join(slots=3).session_id
    leases = fleet.hold(session, *fleet.put(3))
    (a, b, c) = ((lease.task_id, lease.token) for lease in leases)

    def item(outcome: str, pair: tuple[int, int], **fields: Any) -> Finish:
        return Finish(caller=fleet.AGENT, task_id=pair[0], token=pair[1], outcome=outcome, **fields)

    answers = finish.finish_many(
        [
            item("complete", c),
            item("fail", b, error={}),
            item("complete", (a[0], 1)),
            item("complete", c),
            item("release", a),
            item("explode", b),
            item("complete", (10**11, 5)),
        ]
    )
    assert answers[0] == answers[3] == Finished(state="succeeded")
    assert answers[4] == Finished(state="queued")
    assert [type(answers[n]) for n in (1, 2, 5, 6)] == [Invalid, LeaseLost, Invalid, NotFound]
    assert answers[1].errors[0]["field"] == "error.message"
    assert fleet.state(b[0]) == 2
    fleet.invariants()
