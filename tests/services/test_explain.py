"""Why a task waits: each cause told with its numbers; and removing every blocker told makes the task start."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.core.cost import SCALE
from dispatch.errors import EvenflowError, Forbidden, NotFound
from dispatch.services import numbers, pause, policy, sampling
from dispatch.services.explain import why
from tests import fleet
from tests.services.test_dispatch import Leader, park
from tests.services.test_pause import leader  # noqa: F401  # a fixture
from tests.services.world import bury, key

pytestmark = pytest.mark.django_db


def codes(task_id: int, caller: Any = fleet.ROOT) -> list[str]:
    return [blocker["code"] for blocker in why(caller, task_id)["blockers"]]


def only(task_id: int, code: str, caller: Any = fleet.ROOT) -> dict[str, Any]:
    (found,) = [blocker for blocker in why(caller, task_id)["blockers"] if blocker["code"] == code]
    return dict(found)


def test_a_task_that_nothing_stops_is_startable(leader: Leader) -> None:  # noqa: F811
    park(fleet.join().session_id)
    (task,) = fleet.put()
    answer = why(fleet.ROOT, task)
    assert (answer["startable"], answer["blockers"], answer["estimate_s"]) == (True, [], 0.0)
    assert answer["position"] == {"lane": 1, "ahead_of": 0}
    assert leader.run() == 1, "asking has changed nothing"


def test_workers_are_missing_busy_or_silent(leader: Leader) -> None:  # noqa: F811
    (task,) = fleet.put(capabilities=("ocr", "pdf"))
    assert only(task, "no_capable_worker")["text"] == "No live worker offers ocr,pdf."
    near = fleet.join("near", caps=["ocr"])
    blocker = only(task, "no_capable_worker")
    assert (blocker["subject"], blocker["value"]) == ("near", "pdf")
    assert "the nearest, near, lacks pdf" in blocker["text"]
    fit = fleet.join("fit", caps=["ocr", "pdf"])
    assert only(task, "no_free_slot")["value"] == "no agent is asking"
    other = fleet.put(capabilities=("ocr", "pdf"))[0]
    fleet.hold(fit.session_id, other)
    fleet.hold(near.session_id, *fleet.put())
    fleet.sql("UPDATE task SET queued_at = now() - interval '816 s' WHERE id = %s", task)
    blocker = only(task, "no_free_slot")
    assert blocker["value"] == 2
    assert blocker["text"] == "Waiting 13 m 36 s for a free slot on a worker with ocr and pdf."
    assert why(fleet.ROOT, task)["holders"] == [{"class": "critical", "running": 2}, {"tenant": "alpha", "running": 2}]


def test_every_limit_is_told_and_lifting_all_starts_the_task(leader: Leader) -> None:  # noqa: F811
    session = fleet.join("w1", slots=5)
    first = fleet.put(1, tools=("crm",))
    fleet.hold(session.session_id, *first)
    park(session.session_id)
    (task,) = fleet.put(1, tools=("crm",))

    def edit(kind: str, slug: str, **changes: Any) -> None:
        version = policy.get(fleet.ROOT, kind, slug)["version"]
        policy.patch(fleet.ROOT, kind, slug, version, changes, "test")

    edit("pool", "default", budget=1)
    edit("class", "critical", max=1)
    edit("tenant", "alpha", max=1, user_max=1)
    edit("tool", "crm", max=1, cooldown_until=datetime.now(UTC) + timedelta(minutes=5))
    pause.pause(fleet.OPERATOR, "tenant", "alpha", "audit")
    expected = {"pool_budget", "class_max", "tenant_max", "user_max", "tool_max", "tool_cooldown", "paused"}
    answer = why(fleet.ROOT, task)
    assert {blocker["code"] for blocker in answer["blockers"]} >= expected
    assert answer["estimate_s"] is None, "an operator ends this wait"
    paused = only(task, "paused")
    assert (paused["kind"], paused["subject"], paused["text"]) == (
        "tenant",
        "alpha",
        "The tenant alpha is paused: audit.",
    )
    assert paused["since"] is not None
    assert only(task, "class_max")["text"] == "Class critical runs 1 of at most 1."
    assert only(task, "tool_cooldown")["text"].startswith("Tool crm cools down for ")
    assert leader.run() == 0
    edit("pool", "default", budget=None)
    edit("class", "critical", max=None)
    edit("tenant", "alpha", max=None, user_max=None)
    edit("tool", "crm", max=None, cooldown_until=None)
    assert codes(task) == ["paused"]
    pause.resume(fleet.OPERATOR, "tenant", "alpha", "done")
    assert codes(task) == []
    assert leader.run() == 1


def test_scheduled_backing_off_held_and_those_that_do_not_wait(leader: Leader) -> None:  # noqa: F811
    park(fleet.join(slots=5).session_id)
    later, retried, held, dead, gone = fleet.put(5)
    fleet.sql(
        "UPDATE task SET state = 0, queued_at = NULL, run_at = now() + interval '1 hour' WHERE id = ANY(%s)",
        [later, retried],
    )
    fleet.sql("UPDATE task SET starts = 1 WHERE id = %s", retried)
    fleet.sql("UPDATE task SET state = 3, queued_at = NULL, reason = 'max_handbacks' WHERE id = %s", held)
    bury(dead)
    fleet.sql("UPDATE task SET state = 6 WHERE id = %s", gone)
    assert codes(later) == ["scheduled"]
    assert (
        only(later, "scheduled")["text"].startswith("Not due yet for 59 m 5")
        or "1 h" in only(later, "scheduled")["text"]
    )
    assert why(fleet.ROOT, later)["estimate_s"] == pytest.approx(3600, abs=5)
    assert codes(retried) == ["backing_off"]
    assert only(held, "held")["text"] == "It is set aside: max_handbacks."
    for task in (dead, gone):
        answer = why(fleet.ROOT, task)
        assert (answer["startable"], answer["blockers"], answer["position"]) == (False, [], None)


def test_place_and_estimate_behind_others(leader: Leader) -> None:  # noqa: F811
    park(fleet.join().session_id)
    first, *_, last = fleet.put(10)
    answer = why(fleet.ROOT, last)
    assert answer["position"] == {"lane": 10, "ahead_of": 0}
    assert why(fleet.ROOT, first)["position"] == {"lane": 1, "ahead_of": 9}
    assert codes(last) == ["behind_in_lane", "lower_share"] or codes(last) == ["behind_in_lane"]
    assert answer["estimate_s"] is None, "no rate is known yet"
    leader.run()
    sampling.sample()
    assert why(fleet.ROOT, last)["estimate_s"] == pytest.approx(9, abs=1)  # one start a second, nine in the queue


def test_the_deficit_is_what_the_class_is_owed(leader: Leader) -> None:  # noqa: F811
    (task,) = fleet.put()
    account = "c" + str(fleet.value("SELECT id FROM work_class WHERE slug = 'critical'"))
    policy.patch(fleet.ROOT, "class", "critical", 1, {"weight": 2}, "x")
    clock = 3 * SCALE
    for node, data in (("root", {"v": clock, "z": 0}), (account, {"a": 1, "vt": 0})):
        fleet.sql("DELETE FROM share_account WHERE node = %s", node)
        fleet.sql(
            "INSERT INTO share_account (pool_id, node, data) VALUES (%s, %s, %s)",
            fleet.pool_id(),
            node,
            json.dumps(data),
        )
    assert (
        why(fleet.ROOT, task)["deficit"]
        == numbers.deficits(fleet.pool_id(), [{"id": int(account[1:]), "weight": 2.0}])[int(account[1:])]
    )
    assert why(fleet.ROOT, task)["deficit"] > 0
    assert why(key("read", tenant="alpha"), task)["deficit"] is None


def test_a_tenant_learns_nothing_of_others(leader: Leader) -> None:  # noqa: F811
    session = fleet.join("secret-host", slots=1)
    fleet.hold(session.session_id, *fleet.put(1, tenant="beta"))
    (task,) = fleet.put(1)
    (foreign,) = fleet.put(1, tenant="beta")
    policy.patch(fleet.ROOT, "class", "critical", 1, {"max": 1}, "x")
    alpha = key("read", tenant="alpha")
    answer = why(alpha, task)
    assert "beta" not in str(answer)
    assert "secret-host" not in str(answer)
    assert (answer["holders"], answer["deficit"]) == ([], None)
    blocker = only(task, "class_max", alpha)
    assert (blocker["value"], blocker["text"]) == (None, "Class critical runs all of its maximum of 1.")
    assert only(task, "no_free_slot", alpha)["value"] is None
    for id_ in (foreign, 10**12, 0, 2**63):
        with pytest.raises(NotFound):
            why(alpha, id_)
    with pytest.raises(Forbidden):
        why(key("work"), task)
    with pytest.raises(EvenflowError):
        why(key("read", pool="default"), 10**12)
