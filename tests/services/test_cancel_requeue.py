"""Cancel and requeue: who may, what moves, what stays, what is said."""

import pytest

from dispatch.errors import Conflict, EvenflowError, Forbidden, Invalid, NotFound
from dispatch.models import AuditEvent, LaneDelta, Lease, Task
from dispatch.services import tasks
from dispatch.services.cancel import cancel
from dispatch.services.messages import Caller
from dispatch.services.requeue import requeue
from tests.services.world import ROOT, bury, key, lease, make_world, person, put

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def test_a_waiting_task_is_cancelled_for_good() -> None:
    task_id = put().id
    assert cancel(ROOT, task_id, "not needed") == {"state": "cancelled"}
    task = tasks.get_task(ROOT, task_id)
    assert (task["state"], task["reason"], task["queue_age_s"]) == ("cancelled", "not needed", None)
    assert [event["event"] for event in task["history"]] == ["submitted", "cancel", "cancelled"]
    with pytest.raises(Conflict):
        cancel(ROOT, task_id)
    assert AuditEvent.objects.filter(action="cancel").count() == 1
    assert sum(delta.queued for delta in LaneDelta.objects.all()) == 0


@pytest.mark.parametrize("state", [0, 1, 3])
def test_every_waiting_state_can_be_cancelled(state: int) -> None:
    task_id = put().id
    Task.objects.filter(pk=task_id).update(state=state)
    assert cancel(ROOT, task_id) == {"state": "cancelled"}


@pytest.mark.parametrize("state", [4, 5, 6])
def test_what_is_final_stays(state: int) -> None:
    task_id = put().id
    Task.objects.filter(pk=task_id).update(state=state)
    with pytest.raises(Conflict):
        cancel(ROOT, task_id)
    assert Task.objects.get(pk=task_id).state == state


def test_a_running_task_is_asked_to_stop_once() -> None:
    task_id = put().id
    lease(task_id)
    for _ in range(2):
        assert cancel(ROOT, task_id, "stop") == {"state": "leased", "cancel_requested": True}
    assert Lease.objects.get(task_id=task_id).directive == 2
    task = tasks.get_task(ROOT, task_id)
    assert task["cancel_requested"] is True
    assert task["lease"]["directive"] == "cancel"
    assert task["lease"]["worker"] == "w1"
    assert AuditEvent.objects.filter(action="cancel").count() == 1


def test_a_dead_letter_gets_a_fresh_life_and_keeps_what_it_is() -> None:
    task_id = put(key="k", payload={"deep": [1]}).id
    before = Task.objects.get(pk=task_id)
    bury(task_id, losses=2, handbacks=5, error={"message": "no"}, fingerprint="f", cancel_requested=True)
    Task.objects.filter(pk=task_id).update(deadline=before.created_at, run_at=before.created_at)
    assert requeue(ROOT, task_id, "again") == {"id": task_id, "state": "queued"}
    after = Task.objects.get(pk=task_id)
    assert (after.state, after.attempts, after.losses, after.handbacks) == (1, 0, 0, 0)
    assert (after.payload, after.key, after.lane_id) == (before.payload, before.key, before.lane_id)
    assert (after.deadline, after.run_at, after.finished_at, after.error) == (None, None, None, None)
    assert (after.reason, after.fingerprint, after.cancel_requested) == ("", "", False)
    assert after.enqueued_at == after.queued_at
    with pytest.raises(Conflict):
        requeue(ROOT, task_id)
    entry = AuditEvent.objects.get(action="requeue")
    assert entry.before["error"] == {"message": "no"}
    assert "requeue" in [event["event"] for event in tasks.get_task(ROOT, task_id)["history"]]


@pytest.mark.parametrize("state", [0, 1, 2, 3, 4, 6])
def test_only_the_dead_are_requeued(state: int) -> None:
    task_id = put().id
    Task.objects.filter(pk=task_id).update(state=state)
    with pytest.raises(Conflict):
        requeue(ROOT, task_id)


def _callers() -> list[tuple[str, Caller, type[EvenflowError] | None, type[EvenflowError] | None]]:
    """name, caller, what cancelling and requeueing a task of beta answers."""
    return [
        ("bound to alpha", key("submit", "operate", "read", tenant="alpha"), NotFound, NotFound),
        ("bound to the pool other", key("submit", "operate", pool="other"), NotFound, NotFound),
        ("read only", key("read"), Forbidden, Forbidden),
        ("work only", key("work"), Forbidden, Forbidden),
        ("submit", key("submit"), None, Forbidden),
        ("operate", key("operate"), None, None),
        ("admin of alpha", person(alpha="admin"), NotFound, NotFound),
        ("viewer of beta", person(beta="viewer"), Forbidden, Forbidden),
        ("viewer of beta, admin of alpha", person(beta="viewer", alpha="admin"), Forbidden, Forbidden),
        ("member of beta", person(beta="member"), None, Forbidden),
        ("admin of beta", person(beta="admin"), None, None),
        ("auditor", person("auditor"), Forbidden, Forbidden),
        ("operator", person("operator"), None, None),
        ("nobody", person(), Forbidden, Forbidden),
    ]


def test_who_may_cancel_and_requeue() -> None:
    for name, caller, cancelling, requeueing in _callers():
        task_id = put(tenant="beta").id
        for verb, expected in ((requeue, requeueing), (cancel, cancelling)):
            if verb is requeue:
                bury(task_id)
            else:
                Task.objects.filter(pk=task_id).update(state=1)
            if expected is None:
                verb(caller, task_id)
                continue
            with pytest.raises(expected) as hidden:
                verb(caller, task_id)
            assert type(hidden.value).slug == expected.slug, name
            if expected is NotFound:
                with pytest.raises(NotFound) as missing:
                    verb(caller, 10**15)
                assert str(missing.value) == str(hidden.value)


def test_refusals_of_people_and_operators_are_audited_agents_are_not() -> None:
    task_id = put(tenant="beta").id
    for caller in (person(alpha="admin"), key("operate", tenant="alpha"), key("work"), key("submit", tenant="alpha")):
        with pytest.raises(EvenflowError):
            cancel(caller, task_id)
    refused = AuditEvent.objects.filter(refused=True, action="cancel")
    assert sorted(refused.values_list("actor_kind", flat=True)) == ["key", "user"]


@pytest.mark.parametrize("task_id", [0, -1, 2**63, 2**70, 999_999_999])
def test_a_missing_id_is_not_found(task_id: int) -> None:
    for verb in (cancel, requeue):
        with pytest.raises(NotFound):
            verb(ROOT, task_id)
    with pytest.raises(NotFound):
        tasks.get_task(ROOT, task_id)


def test_a_reason_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(Invalid):
        cancel(ROOT, put().id, "a\0b")
    with pytest.raises(Invalid):
        requeue(ROOT, put().id, "x" * 2001)
