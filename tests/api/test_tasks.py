"""Submitters' calls, through both doors."""

from typing import Any

import pytest

from dispatch.conf import limits
from tests.api.conftest import World
from tests.api.test_conventions import TASK, is_problem

pytestmark = pytest.mark.django_db(transaction=True)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"tenant": None}, "tenant"),
    ({"tenant": "Sales"}, "tenant"),
    ({"tenant": " sales"}, "tenant"),
    ({"tenant": "nobody"}, "tenant"),
    ({"tenant": "a" * 64}, "tenant"),
    ({"tenant": "sales\n"}, "tenant"),
    ({"class": "nothing"}, "class"),
    ({"class": 3}, "class"),
    ({"pool": "nothing"}, "pool"),
    ({"capabilities": ["GPU"]}, "capabilities[0]"),
    ({"capabilities": [" gpu "]}, "capabilities[0]"),
    ({"capabilities": "gpu"}, "capabilities"),
    ({"capabilities": [f"c{n}" for n in range(17)]}, "capabilities"),
    ({"tools": ["unknown"]}, "tools"),
    ({"tools": [f"t{n}" for n in range(9)]}, "tools"),
    ({"cost": "3"}, "cost"),
    ({"cost": True}, "cost"),
    ({"cost": -1}, "cost"),
    ({"cost": 1e300}, "cost"),
    ({"priority": 101}, "priority"),
    ({"priority": 1.0}, "priority"),
    ({"priority": "1"}, "priority"),
    ({"key": ""}, "key"),
    ({"key": "x" * 201}, "key"),
    ({"key": "a\x00b"}, "key"),
    ({"type": "a\x00b"}, "type"),
    ({"run_at": "tomorrow"}, "run_at"),
    ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
    ({"run_at": 1_700_000_000}, "run_at"),
    ({"run_at": "0001-01-01T00:00:00+23:59"}, "run_at"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 101}, "max_attempts"),
    ({"max_runtime_s": 0}, "max_runtime_s"),
    ({"max_runtime_s": -1}, "max_runtime_s"),
    ({"deadline": "2030-13-01T00:00:00Z"}, "deadline"),
    ({"payload": {"a": ["\x00"]}}, "payload.a[0]"),
    ({"payload": "\x00"}, "payload"),
    ({"payload": {"a\x00": 1}}, "payload.a\\x00"),
    ({"colour": "red"}, "colour"),
]


PAYLOADS: list[Any] = [
    None,
    True,
    0,
    2**63 - 1,
    -(2**63),
    1.5,
    "",
    "é\U0001f600",
    [],
    {},
    {"": {" ": [None]}},
    "x" * 10_000,
]


def test_a_bad_field_is_named(world: World) -> None:
    for change, field in BAD:
        reply = world.door.post("/tasks", {**TASK, **change})
        is_problem(reply, 422, "validation", change)
        assert set(reply.fields) == {field}, change


def test_a_bad_task_refuses_its_batch_by_index(world: World) -> None:
    for change, field in BAD:
        reply = world.door.post("/tasks", {"tasks": [TASK, TASK, {**TASK, **change}]})
        is_problem(reply, 422, "validation", change)
        assert set(reply.fields) == {f"tasks[2].{field}"}, change
    assert world.door.get("/tasks").data["items"] == []


def test_a_missing_field_is_named(world: World) -> None:
    for name in ("tenant", "class", "payload"):
        reply = world.door.post("/tasks", {key: value for key, value in TASK.items() if key != name})
        is_problem(reply, 422, "validation", name)
        assert reply.fields == [name]


def test_any_json_is_kept_exactly(world: World) -> None:
    for payload in PAYLOADS:
        found = world.door.get(f"/tasks/{world.task(payload=payload)}").data["payload"]
        assert found == payload
        assert type(found) is type(payload)


def test_one_task_answers_its_id_state_and_lane(world: World) -> None:
    reply = world.door.post("/tasks", TASK)
    assert reply.status == 201
    assert reply.data == {"id": reply.data["id"], "state": "queued", "created": True, "lane": reply.data["lane"]}


def test_many_tasks_answer_in_order(world: World) -> None:
    later = {**TASK, "run_at": "2099-01-01T00:00:00Z"}
    reply = world.door.post("/tasks", {"tasks": [TASK, later, TASK]})
    assert reply.status == 201
    assert [task["state"] for task in reply.data["tasks"]] == ["queued", "scheduled", "queued"]


def test_batches_have_one_to_a_thousand_tasks(world: World) -> None:
    bad: list[Any] = [[], [TASK] * 1001, {}, None, [3]]
    for tasks in bad:
        is_problem(world.door.post("/tasks", {"tasks": tasks}), 422, "validation")


def test_a_batch_has_no_fields_beside_tasks(world: World) -> None:
    reply = world.door.post("/tasks", {"tasks": [TASK], "tenant": "sales"})
    is_problem(reply, 422, "validation")
    assert reply.fields == ["tenant"]


def test_payloads_up_to_the_limit(world: World) -> None:
    fits = "x" * (limits().payload_bytes - 2)
    assert world.door.post("/tasks", {**TASK, "payload": fits}).status == 201
    is_problem(world.door.post("/tasks", {**TASK, "payload": fits + "x"}), 413, "too-large")


def test_payloads_up_to_the_depth(world: World) -> None:
    for levels, status in ((64, 201), (65, 422), (72, 422), (3000, 422)):
        raw = b'{"tenant": "sales", "class": "background", "payload": ' + b"[" * levels + b"]" * levels + b"}"
        assert world.door.post("/tasks", raw=raw).status == status, levels


def test_the_same_key_answers_the_first_task(world: World) -> None:
    first = world.door.post("/tasks", {**TASK, "key": "k"})
    again = world.door.post("/tasks", {"payload": 1, "key": "k", "class": "background", "tenant": "sales"})
    assert again.status == 201
    assert (again.data["id"], again.data["created"]) == (first.data["id"], False)
    is_problem(world.door.post("/tasks", {**TASK, "key": "k", "payload": 2}), 409, "key-reused")


def test_the_idempotency_key_answers_the_first_answer(world: World) -> None:
    headers = {"idempotency-key": "once"}
    first = world.door.post("/tasks", TASK, headers=headers)
    again = world.door.post("/tasks", TASK, headers=headers)
    assert (again.status, again.data) == (201, first.data)
    assert len(world.door.get("/tasks").data["items"]) == 1
    is_problem(world.door.post("/tasks", {**TASK, "payload": 2}, headers=headers), 409, "key-reused")
    other_key = world.door.post("/tasks", TASK, headers=headers, key=world.key("submit"))
    assert other_key.data["id"] != first.data["id"]


def test_a_refused_call_leaves_its_idempotency_key_free(world: World) -> None:
    headers = {"idempotency-key": "again"}
    assert world.door.post("/tasks", {**TASK, "tenant": "nobody"}, headers=headers).status == 422
    assert world.door.post("/tasks", TASK, headers=headers).status == 201


def test_an_idempotency_key_is_short_text(world: World) -> None:
    for key in ("", "x" * 201, "tab\there"):
        is_problem(world.door.post("/tasks", TASK, headers={"idempotency-key": key}), 422, "validation")


def test_cancel_and_its_conflicts(world: World) -> None:
    task_id = world.task()
    assert world.door.post(f"/tasks/{task_id}/cancel", {"reason": "no longer needed"}).data["state"] == "cancelled"
    is_problem(world.door.post(f"/tasks/{task_id}/cancel", {}), 409, "conflict")
    is_problem(world.door.post(f"/tasks/{task_id}/requeue"), 409, "conflict")


def test_cancel_needs_no_body(world: World) -> None:
    assert world.door.post(f"/tasks/{world.task()}/cancel").status == 200


def test_a_reason_is_plain_text(world: World) -> None:
    task_id = world.task()
    for reason in (3, "a\x00b"):
        is_problem(world.door.post(f"/tasks/{task_id}/cancel", {"reason": reason}), 422, "validation")


def test_a_list_goes_on_where_it_stopped(world: World) -> None:
    made = [world.task() for _ in range(5)]
    seen, cursor = [], ""
    while True:
        reply = world.door.get(f"/tasks?limit=2{cursor}")
        seen += [item["id"] for item in reply.data["items"]]
        if reply.data["next_cursor"] is None:
            break
        world.task()  # a new one does not move the pages
        cursor = f"&cursor={reply.data['next_cursor']}"
    assert sorted(seen) == made


def test_waiting_for_the_end_of_a_task_that_has_ended(world: World) -> None:
    task_id = world.task()
    world.door.post(f"/tasks/{task_id}/cancel")
    assert world.door.get(f"/tasks/{task_id}?wait_s=60").data["state"] == "cancelled"
    waiting = world.task()
    assert world.door.get(f"/tasks/{waiting}?wait_s=0.1").data["state"] == "queued"
    is_problem(world.door.get(f"/tasks/{waiting}?wait_s=61"), 422, "validation")
