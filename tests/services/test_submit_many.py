"""Calls of submit that share a transaction: each keeps its own answer, and none is hurt by another one."""

from typing import Any

import pytest

from dispatch.api.idempotent import once_many
from dispatch.errors import Conflict, EvenflowError, Forbidden, Invalid, KeyReused, RateLimited
from dispatch.models import Task
from dispatch.services import policy
from dispatch.services.idempotency import Asked
from dispatch.services.messages import Caller, SubmitCall, Submitted, TaskSpec
from dispatch.services.submit import submit, submit_many
from tests.services.world import ROOT, key, make_world, spec

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def call(*tasks: TaskSpec, caller: Caller = ROOT, batch: bool = True) -> SubmitCall:
    return SubmitCall(caller=caller, tasks=tasks or [spec()], batch=batch)


def one(found: Any) -> Submitted:
    assert isinstance(found, list) and len(found) == 1, found
    submitted: Submitted = found[0]
    return submitted


def test_each_call_gets_the_answers_of_its_own_tasks() -> None:
    first, second, third = submit_many([call(spec(user="a"), spec(user="b")), call(), call(spec(user="a"))])
    assert isinstance(first, list) and isinstance(third, list)
    ids = [task.id for task in first] + [one(second).id, one(third).id]
    assert ids == sorted(ids) == list(Task.objects.order_by("id").values_list("id", flat=True))
    assert first[0].lane == third[0].lane != first[1].lane


def test_what_is_wrong_with_one_call_is_told_to_it_alone() -> None:
    stranger = key("submit", tenant="beta")
    reader = key("read")
    good, bad, hidden, forbidden, also = submit_many(
        [
            call(),
            call(spec(), spec(work_class="none")),
            call(caller=stranger, batch=False),
            call(caller=reader),
            call(spec(priority=1)),
        ]
    )
    assert one(good).created and one(also).created
    assert isinstance(bad, Invalid) and [e["field"] for e in bad.errors] == ["tasks[1].class"]
    assert isinstance(hidden, Invalid) and [e["field"] for e in hidden.errors] == ["tenant"]
    assert isinstance(forbidden, Forbidden)
    assert Task.objects.count() == 2


def test_keys_mean_the_same_as_one_after_another() -> None:
    held = submit(ROOT, [spec(key="old")])[0]
    again, first, twice, other, plain = submit_many(
        [
            call(spec(key="old")),
            call(spec(key="new")),
            call(spec(key="new")),
            call(spec(key="new", payload={"n": 2})),
            call(),
        ]
    )
    assert (one(again).id, one(again).created) == (held.id, False)
    assert one(first).created and (one(twice).id, one(twice).created) == (one(first).id, False)
    assert isinstance(other, KeyReused)
    assert one(plain).created
    assert Task.objects.count() == 3


def test_a_limit_refuses_only_the_calls_that_pass_it() -> None:
    version = policy.get(ROOT, "tenant", "alpha")["version"]
    policy.patch(ROOT, "tenant", "alpha", version, {"max_queued": 2}, "test")
    found = submit_many([call(), call(spec(tenant="beta")), call(), call()])
    assert [isinstance(answer, RateLimited) for answer in found] == [False, False, False, True]
    assert Task.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_payload_that_the_database_refuses_fails_alone() -> None:
    """What no check sees is met when each call runs alone; here a lone surrogate stands for it."""
    bad = spec(payload={"n": "\udc00"})
    answers = submit_many([call(), call(bad), call()])
    assert [isinstance(answer, EvenflowError) for answer in answers] == [False, True, False]


def test_idempotency_keys_of_calls_that_share_a_transaction() -> None:
    def asked(name: str, body: bytes = b"x") -> Asked:
        return Asked(ROOT, "/api/v1/tasks", name, body)

    made: list[int] = []

    def make(numbers: Any) -> list[Any]:
        made.extend(numbers)
        return [Invalid(("x", "is bad")) if n == 3 else (201, {}, b'{"n":%d}' % n) for n in numbers]

    first = once_many([asked("a"), asked("a"), None, asked("bad"), asked("c")], make)
    assert made == [0, 2, 3, 4]
    assert isinstance(first[1], Conflict), "the first one with this key was still running"
    assert isinstance(first[3], Invalid)
    again = once_many([asked("a"), asked("a", b"other"), asked("bad"), asked("c")], lambda numbers: [(201, {}, b"{}")])
    assert isinstance(again[0], tuple) and again[0][2] == b'{"n":0}'
    assert isinstance(again[1], KeyReused)
    assert isinstance(again[2], tuple) and again[2][2] == b"{}", "a refused call may be corrected and sent again"
    assert isinstance(again[3], tuple) and again[3][2] == b'{"n":4}'


def test_keys_are_free_again_when_the_calls_fail() -> None:
    def fail(numbers: Any) -> list[Any]:
        raise RuntimeError("no")

    asked = Asked(ROOT, "/api/v1/tasks", "a", b"x")
    with pytest.raises(RuntimeError):
        once_many([asked], fail)
    assert once_many([asked], lambda numbers: [(201, {}, b"{}")]) == [(201, {}, b"{}")]
