"""Several connections at once: submits on the same lanes and keys, cancel against hand-out and end, double requeue."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from dispatch.core.states import State
from dispatch.errors import Conflict, EvenflowError, KeyReused, RateLimited
from dispatch.models import AuditEvent, Lane, LaneDelta, Lease, Task
from dispatch.services import policy
from dispatch.services.cancel import cancel
from dispatch.services.finish import finish_many
from dispatch.services.heartbeat import heartbeat_many
from dispatch.services.messages import Beat, Finish, Finished, HeartbeatAnswer, HeartbeatRequest
from dispatch.services.requeue import requeue
from dispatch.services.submit import submit
from dispatch.store import db, lanes
from tests import fleet
from tests.rounds import rounds
from tests.services.world import ROOT, bury, lease, make_world, put, spec, worker_session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at one barrier, each on a connection of its own; answers or errors in order."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(10)
            return call()
        except EvenflowError as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_submits_on_the_same_new_lanes_never_deadlock() -> None:
    for turn in range(12):
        batch = [spec(user=f"u{turn}-{n}", capabilities=(f"c{turn}-{n}",)) for n in range(12)]
        answers = together(lambda b=batch: submit(ROOT, b), lambda b=batch: submit(ROOT, b[::-1]))  # type: ignore[misc]
        assert all(isinstance(answer, list) for answer in answers), answers
        assert [a.lane for a in answers[0]] == [a.lane for a in answers[1]][::-1]
        lanes.forget()
    assert Lane.objects.count() == 144
    assert sum(delta.queued for delta in LaneDelta.objects.all()) == Task.objects.count() == 288


def test_the_same_keys_in_opposite_orders_make_each_task_once() -> None:
    for turn in range(12):
        batch = [spec(key=f"{turn}-{n}") for n in range(20)]
        one, other = together(lambda b=batch: submit(ROOT, b), lambda b=batch: submit(ROOT, b[::-1]))  # type: ignore[misc]
        assert [a.id for a in one] == [a.id for a in other][::-1]
        assert sum(a.created for a in one) + sum(a.created for a in other) == 20
    assert Task.objects.count() == 240


def test_one_key_with_two_contents_has_one_winner() -> None:
    for turn in range(12):
        answers = together(*(lambda t=turn, p=p: submit(ROOT, [spec(key=f"{t}", priority=p)]) for p in range(4)))  # type: ignore[misc]
        assert sum(isinstance(answer, list) for answer in answers) == 1
        assert sum(isinstance(answer, KeyReused) for answer in answers) == 3


def test_a_limit_holds_against_submits_at_once() -> None:
    policy.patch(ROOT, "tenant", "alpha", 1, {"max_queued": 7, "submit_per_minute": 50}, "test")
    answers = together(*(lambda: submit(ROOT, [spec(), spec()]) for _ in range(8)))
    assert sum(isinstance(answer, list) for answer in answers) == 3
    assert sum(isinstance(answer, RateLimited) for answer in answers) == 5
    assert Task.objects.count() == 6


def hand_out(task_ids: Sequence[int], session_id: int) -> list[int]:
    """What the dispatcher does: make leases of what is still startable."""
    return list(task_ids) if fleet.grant(task_ids, session_id) else []


def test_cancel_against_hand_out() -> None:
    session = worker_session()
    seen = set()
    turns = rounds(100, 40)
    for turn in turns:
        task_id = put().id
        calls = [lambda t=task_id: cancel(ROOT, t), lambda t=task_id: hand_out([t], session.pk)]  # type: ignore[misc]
        answer, handed = together(*(calls if turn % 2 else calls[::-1]))[:: 1 if turn % 2 else -1]
        task, held = Task.objects.get(pk=task_id), Lease.objects.filter(task_id=task_id).first()
        seen.add(answer["state"])
        if answer["state"] == "cancelled":
            assert (State(task.state), held, handed) == (State.CANCELLED, None, [])
        else:
            assert held is not None
            assert (State(task.state), held.directive, task.cancel_requested) == (State.LEASED, 2, True)
    assert seen <= {"cancelled", "leased"}
    assert AuditEvent.objects.filter(action="cancel").count() == len(turns)


def ended(task_id: int, token: int, outcome: str) -> Finished | EvenflowError:
    """The agent's call."""
    item = Finish(
        caller=ROOT, task_id=task_id, token=token, outcome=outcome, result={"done": 1}, error={"message": "x"}
    )
    return finish_many([item])[0]


@pytest.mark.parametrize("outcome", ["complete", "fail", "release"])
def test_cancel_against_the_end(outcome: str) -> None:
    session = worker_session()
    for _ in rounds(100, 20):
        task_id = put().id
        token = lease(task_id, session).token
        answer, end = together(
            lambda t=task_id: cancel(ROOT, t),  # type: ignore[misc]
            lambda t=task_id, k=token: ended(t, k, outcome),  # type: ignore[misc]
        )
        task = Task.objects.get(pk=task_id)
        assert isinstance(end, Finished), end
        assert not Lease.objects.filter(task_id=task_id).exists()
        if isinstance(answer, Conflict):
            assert (outcome, State(task.state)) == ("complete", State.SUCCEEDED)
        elif answer["state"] == "cancelled":  # it was released or failed first, and waited again
            assert State(task.state) is State.CANCELLED
            assert outcome != "complete"
        else:
            assert (State(task.state), end.state) == (State.CANCELLED, "cancelled")
        if outcome == "complete":
            assert task.result == {"done": 1}
        assert task.queued_at is None


def test_a_cancelled_task_that_fails_is_never_retried() -> None:
    session, task_id = worker_session(), put().id
    token = lease(task_id, session).token
    cancel(ROOT, task_id, "enough")
    beat = heartbeat_many(
        [HeartbeatRequest(caller=ROOT, session_id=session.pk, beats=(Beat(task_id=task_id, token=token),))]
    )
    assert isinstance(beat[0], HeartbeatAnswer)
    assert beat[0].leases[0].directive == "cancel"
    assert ended(task_id, token, "fail") == Finished(state="cancelled")
    task = Task.objects.get(pk=task_id)
    assert (State(task.state), task.reason, task.attempts) == (State.CANCELLED, "enough", task.attempts)
    with pytest.raises(Conflict):
        cancel(ROOT, task_id)


def test_cancel_that_waits_for_a_hand_out_still_reaches_the_agent() -> None:
    """The lease is missing when cancel looks, the task is locked by the dispatcher, then it is leased."""
    session, task_id = worker_session(), put().id
    locked, done = threading.Event(), threading.Event()

    def dispatcher() -> None:
        with db.atomic():
            fleet.sql("SELECT id FROM task WHERE id = %s FOR NO KEY UPDATE", task_id)
            locked.set()
            done.wait(0.5)  # cancel has looked for the lease by now and waits for the task
            hand_out([task_id], session.pk)

    def canceller() -> Any:
        locked.wait(5)
        return cancel(ROOT, task_id)

    _, answer = together(dispatcher, canceller)
    assert answer == {"state": "leased", "cancel_requested": True}
    assert Lease.objects.get(task_id=task_id).directive == 2


def test_two_people_requeue_the_same_fifty() -> None:
    dead = [put().id for _ in range(50)]
    for task_id in dead:
        bury(task_id)

    def all_of_them() -> int:
        done = 0
        for task_id in dead:
            try:
                requeue(ROOT, task_id, "again")
                done += 1
            except Conflict:
                continue
        return done

    assert sum(together(all_of_them, all_of_them)) == 50
    assert set(Task.objects.values_list("pk", "state")) == {(task_id, int(State.QUEUED)) for task_id in dead}
    assert AuditEvent.objects.filter(action="requeue").count() == 50
    assert sum(delta.dead for delta in LaneDelta.objects.all()) == 0


def test_two_edits_of_one_version_have_one_winner() -> None:
    answers = together(*(lambda w=w: policy.patch(ROOT, "class", "critical", 1, {"weight": w}, "race") for w in (2, 5)))  # type: ignore[misc]
    assert sorted(isinstance(answer, dict) for answer in answers) == [False, True]
    assert policy.get(ROOT, "class", "critical")["version"] == 2


def test_two_makers_of_one_name_have_one_winner() -> None:
    for turn in range(5):
        answers = together(*(lambda t=turn: policy.create(ROOT, "tool", f"t{t}", {}) for _ in range(3)))  # type: ignore[misc]
        assert sorted(isinstance(answer, dict) for answer in answers) == [False, False, True]
        assert all(isinstance(answer, dict | Conflict) for answer in answers)


def test_cancel_and_requeue_of_a_dying_task() -> None:
    """Cancel of a leased task waits for its end and then finds it final."""
    task_id = put().id
    lease(task_id)
    holding, let_go = threading.Event(), threading.Event()

    def ender() -> None:
        with db.atomic():
            db.one("cancel_lock_lease", {"task_id": task_id})
            holding.set()
            let_go.wait(0.3)
            bury(task_id)

    def canceller() -> Any:
        holding.wait(5)
        return cancel(ROOT, task_id)

    _, answer = together(ender, canceller)
    assert isinstance(answer, Conflict)
    assert Task.objects.get(pk=task_id).state == State.DEAD
