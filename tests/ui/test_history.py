"""The charts' samples: steps of the clock, gaps, and nobody sees another tenant's."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from dispatch.errors import NotFound
from dispatch.models import Pool, QueueSample, User, WorkClass
from dispatch.services import access, history, policy
from dispatch.services.messages import Caller


@pytest.fixture
def samples(pool: None) -> None:
    for back, age in [(0, 5.0), (1, 9.0), (35, 2.0), (36, None), (2000, 77.0)]:
        QueueSample.objects.create(
            at=Now() - timedelta(seconds=back),
            step=1,
            pool_id=Pool.objects.get().pk,
            class_id=WorkClass.objects.get().pk,
            queued=1,
            running=0,
            oldest_age_s=age,
            dispatched=0,
        )


def test_each_step_has_its_oldest_age(samples: None, system: Caller) -> None:
    found = history.series(system, "default", "15m")
    [ages] = [one["oldest"] for one in found["classes"].values()]
    assert len(ages) == 90
    known = [age for age in ages if age is not None]
    assert known in ([2.0, 9.0], [2.0, 9.0, 5.0]), "in one step or two, as the clock stands"
    assert ages[0] is None and ages[-1] in (5.0, 9.0)


def test_members_of_a_tenant_get_none(samples: None, person: Callable[..., User]) -> None:
    member = access.for_user(person("", tenant="sales"))
    assert history.series(member, "default", "15m")["classes"] == {}, "a whole class is everybody's"
    assert history.series(member, "default", "15m", tenant="sales")["classes"] == {}, "nothing of it was sampled"
    with pytest.raises(NotFound):
        history.series(member, "default", "15m", tenant="legal")


def test_what_came_in_is_what_left_and_what_the_queue_grew_by(pool: None, system: Caller) -> None:
    for back, queued, dispatched in ((25, 4, 0), (15, 10, 3), (5, 2, 9)):
        QueueSample.objects.create(
            at=Now() - timedelta(seconds=back),
            step=1,
            pool_id=Pool.objects.get().pk,
            class_id=WorkClass.objects.get().pk,
            queued=queued,
            running=2,
            dispatched=dispatched,
        )
    one = history.series(system, "default", "15m")["classes"]["interactive"]
    assert [value for value in one["arrived"] if value is not None] == [9.0, 1.0]
    assert [value for value in one["share"] if value is not None] == [1.0, 1.0, 1.0]


def test_changes_of_the_policy_are_marked(pool: None, system: Caller) -> None:
    policy.patch(system, "class", "interactive", 1, {"weight": 4}, "busy")
    [mark] = history.series(system, "default", "15m")["marks"]
    assert mark["text"].startswith("patch class interactive: weight 1 → 4")
