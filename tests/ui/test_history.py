"""The charts' samples: steps of the clock, gaps, and nobody sees another tenant's."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from dispatch.models import Pool, QueueSample, User, WorkClass
from dispatch.services import access, history
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
    [ages] = history.class_history(system, "default", span_s=900, step_s=10).values()
    assert len(ages) == 90
    known = [age for age in ages if age is not None]
    assert known in ([2.0, 9.0], [2.0, 9.0, 5.0]), "in one step or two, as the clock stands"
    assert ages[0] is None and ages[-1] in (5.0, 9.0)


def test_members_of_a_tenant_get_none(samples: None, person: Callable[..., User]) -> None:
    assert history.class_history(access.for_user(person("", tenant="sales")), "default") == {}
