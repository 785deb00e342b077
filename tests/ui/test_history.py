"""The charts' lines: one value a step, gaps, what came in, marks of changes; nobody sees another tenant's."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from dispatch.errors import NotFound
from dispatch.models import Pool, QueueSample, Tenant, User, WorkClass
from dispatch.services import access, history, policy
from dispatch.services.messages import Caller


def sample(back_s: int, step: int = 10, **fields: Any) -> None:
    """One sample of the only class, so long ago."""
    row = {"queued": 1, "running": 2, "oldest_age_s": 1.0, "dispatched": 0, "slot_s": 5.0, "covered_s": step} | fields
    at = Now() - timedelta(seconds=back_s)
    QueueSample.objects.create(
        at=at, step=step, pool_id=Pool.objects.get().pk, class_id=WorkClass.objects.get().pk, **row
    )


def known(line: list[float | None]) -> list[float]:
    return [value for value in line if value is not None]


def test_each_step_has_its_values_and_gaps_stay(pool: None, system: Caller) -> None:
    for back, age in ((12, 5.0), (352, 2.0), (362, None), (2000, 77.0)):
        sample(back, oldest_age_s=age)
    found = history.series(system, "default", "15m", slos={"interactive": 60.0})
    one = found["classes"]["interactive"]
    assert found["step_s"] == 10 and len(one["oldest"]) == 90 and one["slo_s"] == 60
    assert known(one["oldest"]) == [2.0, 5.0] and one["oldest"][0] is None
    assert known(one["running"]) == [2.0, 2.0, 2.0] and known(one["share"]) == [1.0, 1.0, 1.0]


def test_what_came_in_is_what_left_and_what_the_queue_grew_by(pool: None, system: Caller) -> None:
    for back, queued, dispatched in ((32, 40, 0), (22, 100, 30), (12, 20, 90)):
        sample(back, queued=queued, dispatched=dispatched)
    one = history.series(system, "default", "15m")["classes"]["interactive"]
    assert known(one["arrived"]) == [9.0, 1.0]


def test_members_of_a_tenant_get_their_own_part(pool: None, system: Caller, person: Callable[..., User]) -> None:
    sample(12, queued=9)
    sample(12, queued=4, tenant_id=Tenant.objects.get(slug="sales").pk)
    sample(12, queued=5, tenant_id=Tenant.objects.get(slug="legal").pk)
    member = access.for_user(person("", tenant="sales"))
    assert known(history.series(system, "default", "15m")["classes"]["interactive"]["queued"]) == [9.0]
    assert known(history.series(member, "default", "15m")["classes"]["interactive"]["queued"]) == [4.0]
    assert known(history.series(system, "default", "15m", "legal")["classes"]["interactive"]["queued"]) == [5.0]
    with pytest.raises(NotFound):
        history.series(member, "default", "15m", "legal")


def test_changes_of_the_policy_are_marked(pool: None, system: Caller) -> None:
    policy.patch(system, "class", "interactive", 1, {"weight": 4}, "busy")
    [mark] = history.series(system, "default", "15m")["marks"]
    assert mark["text"].startswith("patch class interactive: weight 1 → 4")
