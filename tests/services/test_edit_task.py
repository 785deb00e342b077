"""Edits of waiting tasks: what changes, what stays, who may, and against the dispatcher."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.core.states import State
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.models import AuditEvent, Task
from dispatch.services.edit_task import edit_task
from dispatch.services.submit import submit
from tests import fleet
from tests.services.test_dispatch import Leader, park
from tests.services.test_pause import leader  # noqa: F401  # a fixture
from tests.services.world import ROOT, key, make_world, person, put, spec

pytestmark = pytest.mark.django_db
SOON = timedelta(hours=1)


def test_priority_payload_and_limits_change_and_the_place_stays() -> None:
    make_world()
    task_id = put(key="k").id
    before = Task.objects.get(pk=task_id)
    answer = edit_task(
        ROOT,
        task_id,
        {"priority": 7, "payload": {"secret": 1}, "cost": 2.5, "max_attempts": 5, "max_runtime_s": 9.0},
        "urgent",
    )
    assert (answer["state"], answer["priority"], answer["cost"], answer["max_attempts"]) == ("queued", 7, 2.5, 5)
    after = Task.objects.get(pk=task_id)
    assert (after.payload, after.max_runtime_s) == ({"secret": 1}, 9.0)
    assert (after.enqueued_at, after.queued_at, after.lane_id) == (before.enqueued_at, before.queued_at, before.lane_id)
    assert edit_task(ROOT, task_id, {"cost": None, "max_attempts": None})["cost"] is None
    entry = AuditEvent.objects.filter(action="patch_task").order_by("id")[0]
    assert (entry.before["priority"], entry.after["priority"], entry.reason) == (0, 7, "urgent")
    assert "secret" not in str(entry.after)
    assert submit(ROOT, [spec(key="k")])[0].created is False


def test_a_time_to_start_decides_between_scheduled_and_queued(leader: Leader) -> None:  # noqa: F811
    park(fleet.join(slots=5).session_id)
    (task,) = fleet.put()
    assert edit_task(ROOT, task, {"run_at": datetime.now(UTC) + SOON})["state"] == "scheduled"
    assert leader.run() == 0
    assert edit_task(ROOT, task, {"priority": 1})["state"] == "scheduled"
    assert edit_task(ROOT, task, {"run_at": None})["state"] == "queued"
    assert leader.run() == 1
    with pytest.raises(Conflict):
        edit_task(ROOT, task, {"priority": 2})
    fleet.invariants()


def test_a_held_task_waits_until_it_is_let_go(leader: Leader) -> None:  # noqa: F811
    park(fleet.join(slots=5).session_id)
    (task, later) = fleet.put(2)
    assert edit_task(ROOT, task, {"held": True}, "looks odd")["state"] == "held"
    assert Task.objects.get(pk=task).reason == "looks odd"
    edit_task(ROOT, later, {"held": True, "run_at": datetime.now(UTC) + SOON})
    assert edit_task(ROOT, task, {"priority": 3})["state"] == "held"
    assert leader.run() == 0
    assert edit_task(ROOT, task, {"held": False})["state"] == "queued"
    assert edit_task(ROOT, later, {"held": False})["state"] == "scheduled"
    assert Task.objects.get(pk=task).reason == ""
    assert leader.run() == 1
    fleet.invariants()


@pytest.mark.parametrize("state", [State.LEASED, State.SUCCEEDED, State.DEAD, State.CANCELLED])
def test_only_waiting_tasks_are_edited(state: State) -> None:
    make_world()
    task_id = put().id
    Task.objects.filter(pk=task_id).update(state=int(state))
    with pytest.raises(Conflict, match=state.word):
        edit_task(ROOT, task_id, {"priority": 1})


def test_bad_edits_are_refused_by_field() -> None:
    make_world()
    task_id = put().id
    cases: list[tuple[str, dict[str, Any]]] = [
        ("body", {}),
        ("tenant", {"tenant": "beta"}),
        ("priority", {"priority": 101}),
        ("priority", {"priority": None}),
        ("run_at", {"run_at": datetime(2030, 1, 1)}),
        ("payload", {"payload": "a\0b"}),
        ("cost", {"cost": -1}),
        ("max_attempts", {"max_attempts": 0}),
        ("held", {"held": "yes"}),
    ]
    for field, changes in cases:
        with pytest.raises(Invalid) as refused:
            edit_task(ROOT, task_id, changes)
        assert [error["field"] for error in refused.value.errors] == [field]


def test_who_may_edit() -> None:
    make_world()
    task_id = put(tenant="beta").id
    for caller in (key("submit", tenant="alpha"), person(alpha="admin"), key("operate", pool="other")):
        for id_ in (task_id, 10**12):
            with pytest.raises(NotFound) as missing:
                edit_task(caller, id_, {"priority": 1})
            assert missing.value.detail == "There is no such task."
    for caller in (key("read"), person(beta="viewer"), person("auditor")):
        with pytest.raises(Forbidden):
            edit_task(caller, task_id, {"priority": 1})
    for caller in (key("submit", tenant="beta"), person(beta="member")):
        assert edit_task(caller, task_id, {"priority": 1})["priority"] == 1
        with pytest.raises(Forbidden):
            edit_task(caller, task_id, {"held": True})
    assert edit_task(person(beta="admin"), task_id, {"held": True})["state"] == "held"
