"""Idempotency-Key: first, repeat, reuse, still running, refused, old."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dispatch.errors import Conflict, KeyReused
from dispatch.models import IdempotencyKey
from dispatch.services import idempotency
from tests.services.world import ROOT, key, person

pytestmark = pytest.mark.django_db
BODY, OTHER = b"1" * 32, b"2" * 32


def test_a_repeat_gets_the_first_answer() -> None:
    robot = key("submit")
    assert idempotency.begin(robot, "/tasks", "a", BODY) is None
    with pytest.raises(Conflict) as running:
        idempotency.begin(robot, "/tasks", "a", BODY)
    assert running.value.retry_after_s
    idempotency.finish(robot, "/tasks", "a", 201, {"id": 2**63 - 1})
    assert idempotency.begin(robot, "/tasks", "a", BODY) == (201, {"id": 2**63 - 1})
    with pytest.raises(KeyReused):
        idempotency.begin(robot, "/tasks", "a", OTHER)


def test_keys_are_apart_by_caller_and_path() -> None:
    for caller in (key("submit"), person("operator"), ROOT):
        for path in ("/tasks", "/keys"):
            assert idempotency.begin(caller, path, "a", BODY) is None


def test_a_refused_call_frees_its_key() -> None:
    robot = key("submit")
    idempotency.begin(robot, "/tasks", "a", BODY)
    idempotency.abandon(robot, "/tasks", "a")
    assert idempotency.begin(robot, "/tasks", "a", OTHER) is None
    idempotency.finish(robot, "/tasks", "a", 200, None)
    idempotency.abandon(robot, "/tasks", "a")  # an answer that was given stays
    assert idempotency.begin(robot, "/tasks", "a", OTHER) == (200, None)


@pytest.mark.parametrize(("answered", "age_h"), [(True, 25), (False, 1)])
def test_old_records_count_no_more(answered: bool, age_h: int) -> None:
    robot = key("submit")
    idempotency.begin(robot, "/tasks", "a", BODY)
    if answered:
        idempotency.finish(robot, "/tasks", "a", 200, {})
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=age_h))
    assert idempotency.begin(robot, "/tasks", "a", OTHER) is None
