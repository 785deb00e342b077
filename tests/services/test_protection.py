"""Quarantine and breakers against real attempts: who is hit, who is not, and the way back."""

from typing import Any

import pytest
from django.conf import LazySettings

from dispatch.core.states import State
from dispatch.models import Alert, AuditEvent, Worker
from dispatch.services import alerts, protection, worker_control
from tests import fleet
from tests.services.test_dispatch import Leader, park
from tests.services.test_pause import leader  # noqa: F401  # a fixture
from tests.services.world import key

pytestmark = pytest.mark.django_db


def work(session: int, outcome: str, count: int = 1, kind: str = "resize", **fields: Any) -> None:
    """So many different tasks of a type end under a session."""
    for task in fleet.put(count, type=kind, max_attempts=1, **fields):
        (lease,) = fleet.hold(session, task)
        fleet.end(outcome, task, lease.token)


def quarantined() -> list[str]:
    return list(Worker.objects.filter(quarantined=True).values_list("name", flat=True))


def test_a_worker_that_fails_at_what_others_can_do_is_quarantined() -> None:
    fleet.world()
    bad, good = fleet.join("bad"), fleet.join("good")
    work(bad.session_id, "fail", 9)
    work(good.session_id, "complete")
    assert protection.quarantine() == 0
    work(bad.session_id, "fail")
    assert protection.quarantine() == 1
    assert quarantined() == ["bad"]
    alert = Alert.objects.get(rule="quarantine")
    assert (alert.subject, alert.resolved_at) == (f"worker:{bad.worker_id}", None)
    assert alert.text.startswith("Worker bad is quarantined: 10 different tasks")
    assert AuditEvent.objects.get(action="quarantine_worker").actor_kind == "system"
    assert protection.quarantine() == 0, "once"
    worker_control.patch_worker(fleet.ROOT, bad.worker_id, {"quarantined": False}, "repaired")
    assert protection.quarantine() == 0, "its streak is forgotten"
    fleet.sql("UPDATE alert SET resolved_at = now() - interval '1 s'")  # one transaction, one time
    fleet.sql("UPDATE attempt SET ended_at = ended_at - interval '2 s'")
    assert protection.quarantine() == 0
    work(bad.session_id, "fail", 10)
    assert protection.quarantine() == 1, "and it may be caught again"


def test_who_is_not_quarantined(settings: LazySettings) -> None:
    fleet.world()
    session = fleet.join("w1").session_id
    work(session, "fail", 10)
    assert protection.quarantine() == 0, "nobody succeeds with the type"
    good = fleet.join("good").session_id
    work(good, "complete")
    settings.EVENFLOW_QUARANTINE_TASKS = 0
    assert protection.quarantine() == 0, "turned off"
    settings.EVENFLOW_QUARANTINE_TASKS = 10
    fleet.sql("UPDATE attempt SET outcome = 2 WHERE outcome = 1")
    assert protection.quarantine() == 0, "lost leases say nothing"
    fleet.sql("UPDATE attempt SET outcome = 3 WHERE outcome = 2")
    fleet.sql("UPDATE attempt SET ended_at = ended_at - interval '1 minute' WHERE outcome = 3")
    work(session, "complete")
    assert protection.quarantine() == 0, "its last success came after them"
    fleet.sql(
        "UPDATE attempt SET ended_at = ended_at - interval '2 minutes' WHERE outcome = 0 AND session_id = %s", session
    )
    assert protection.quarantine() == 1, "stalled ones count like failed ones"


def test_the_same_task_again_is_one_task() -> None:
    fleet.world()
    session, good = fleet.join("w1").session_id, fleet.join("good").session_id
    work(session, "fail", 10)
    work(good, "complete")
    fleet.sql("UPDATE attempt SET task_id = (SELECT min(task_id) FROM attempt) WHERE outcome = 1")
    assert protection.quarantine() == 0


def fail_everywhere(count: int = 20, workers: int = 5, kind: str = "resize", **fields: Any) -> None:
    for number in range(workers):
        work(fleet.join(f"f{number}").session_id, "fail", count // workers, kind, **fields)


def test_a_type_that_fails_everywhere_is_held_and_tried_again(leader: Leader) -> None:  # noqa: F811
    fail_everywhere()
    waiting = fleet.put(3, type="resize")
    fleet.sql(
        "UPDATE task SET state = 0, queued_at = NULL, run_at = now() + interval '1 hour' WHERE id = %s", waiting[2]
    )
    other, foreign, plain = fleet.put(1, type="mail"), fleet.put(1, type="resize", tenant="beta"), fleet.put(1)
    assert protection.breakers() == 3
    assert [fleet.state(id_) for id_ in waiting] == [State.HELD] * 3
    assert {fleet.state(id_) for id_ in (*other, *foreign, *plain)} == {State.QUEUED}
    assert fleet.value("SELECT reason FROM task WHERE id = %s", waiting[0]) == "breaker"
    alert = Alert.objects.get(rule="breaker")
    assert alert.text == "Tasks of type resize are held: 20 of 20 attempts failed on 5 workers."
    (late,) = fleet.put(1, type="resize")
    assert protection.breakers() == 1
    assert fleet.state(late) == State.HELD
    park(fleet.join("w9", slots=9).session_id)
    assert leader.run() == 3
    fleet.sql("UPDATE alert SET fired_at = now() - interval '301 s'")
    assert protection.breakers() == 4
    assert [fleet.state(id_) for id_ in (*waiting, late)] == [State.QUEUED, State.QUEUED, State.SCHEDULED, State.QUEUED]
    assert Alert.objects.get(rule="breaker").resolved_at is not None
    assert leader.run() == 3
    assert protection.breakers() == 0, "old failures do not open it again"
    fleet.invariants()


def test_what_opens_no_breaker(leader: Leader, settings: LazySettings) -> None:  # noqa: F811
    fail_everywhere(workers=4)
    assert (protection.breakers(), Alert.objects.count()) == (0, 0)
    fail_everywhere(kind="mail")
    work(fleet.join("good").session_id, "complete", 3, "mail")
    fail_everywhere(kind="")
    protection.breakers()
    assert Alert.objects.count() == 0, "a tenth of successes; no type"
    fleet.sql("UPDATE attempt SET ended_at = ended_at - interval '6 minutes' WHERE outcome = 0")
    settings.EVENFLOW_BREAKER_FAILURES = 0
    protection.breakers()
    assert Alert.objects.count() == 0
    settings.EVENFLOW_BREAKER_FAILURES = 20
    protection.breakers()
    assert Alert.objects.filter(rule="breaker").count() == 1


def test_turning_the_rule_off_lets_everything_go(leader: Leader, settings: LazySettings) -> None:  # noqa: F811
    fail_everywhere()
    (task,) = fleet.put(1, type="resize")
    protection.breakers()
    settings.EVENFLOW_BREAKER_FAILURES = 0
    assert protection.breakers() == 1
    assert fleet.state(task) == State.QUEUED


def test_a_breaker_is_told_to_its_tenant_only(leader: Leader) -> None:  # noqa: F811
    fail_everywhere()
    protection.breakers()
    assert len(alerts.list_alerts(key("read", tenant="alpha")).items) == 1
    assert alerts.list_alerts(key("read", tenant="beta")).items == []
