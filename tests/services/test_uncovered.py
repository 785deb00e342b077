"""The alert on work that no live worker can do (H06): raised at once, named, resolved when somebody can."""

import pytest

from dispatch.models import Alert, Tenant
from dispatch.services import uncovered
from tests.fleet import join, key, put, sql, world

pytestmark = pytest.mark.django_db


def open_alerts() -> list[str]:
    return sorted(Alert.objects.filter(rule=uncovered.RULE, resolved_at=None).values_list("text", flat=True))


@pytest.fixture(autouse=True)
def _departments() -> None:
    world()


def test_a_missing_capability_is_named_until_a_worker_offers_it() -> None:
    join("w1", capabilities=("code",))
    put(1, capabilities=("code", "quantum"))
    put(3, capabilities=("code",))
    assert uncovered.watch() == 1
    assert uncovered.watch() == 1
    assert open_alerts() == ["No eligible worker: quantum. 1 queue waits."]
    join("w2", capabilities=("code", "quantum"))
    assert uncovered.watch() == 0
    assert open_alerts() == []
    assert Alert.objects.filter(rule=uncovered.RULE).count() == 1


def test_capabilities_that_nobody_has_together_are_told_apart_from_missing_ones() -> None:
    join("w1", capabilities=("ocr",))
    join("w2", capabilities=("pdf",))
    put(1, capabilities=("ocr", "pdf"))
    put(1, capabilities=("ocr", "pdf"), tenant="beta")
    assert uncovered.watch() == 1
    assert open_alerts() == ["No live worker offers ocr and pdf together. 2 queues wait."]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE worker SET draining = true",
        "UPDATE worker SET quarantined = true",
        "UPDATE worker_session SET closed_at = now()",
        "UPDATE worker_session SET last_seen_at = now() - interval '1 hour'",
    ],
)
def test_who_takes_no_work_does_not_count(change: str) -> None:
    join("w1")
    put(1)
    assert uncovered.watch() == 0
    sql(change)
    assert uncovered.watch() == 1
    assert open_alerts() == ["No live worker. 1 queue waits."]


def test_a_worker_of_one_department_does_not_cover_another() -> None:
    join("w1", caller=key(7, tenant_id=Tenant.objects.get(slug="beta").pk))
    put(1, tenant="beta")
    assert uncovered.watch() == 0
    put(1, tenant="alpha")
    assert uncovered.watch() == 1


def test_idle_fleets_scheduled_and_held_work_raise_nothing() -> None:
    put(1)
    sql("UPDATE task SET state = 0, run_at = now() + interval '1 hour'")
    put(1)
    sql("UPDATE task SET state = 3 WHERE state = 1")
    assert uncovered.watch() == 0
    assert open_alerts() == []
