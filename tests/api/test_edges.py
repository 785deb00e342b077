"""Edges of the conventions at every call of the document, and the claim that travels with an end. Both doors."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from dispatch.models import Task
from dispatch.services import access, policy
from tests.api.conftest import World
from tests.api.document import document
from tests.api.planes import Door

pytestmark = pytest.mark.django_db(transaction=True)
HUGE = (0, 2**63, 10**30)
NINJA = pytest.mark.parametrize("world", [Door], indirect=True)  # calls that only one of the doors serves


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation: method, path below /api/v1, its declaration."""
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path.removeprefix("/api/v1"), operation


def filled(path: str, number: int | str = 1) -> str:
    return re.sub(r"\{(\w+)\}", lambda part: "some" if part[1] in {"slug", "user", "kind"} else str(number), path)


def test_no_call_ignores_an_unknown_field_or_parameter(world: World) -> None:
    seen = 0
    for method, path, operation in calls():
        reply = world.door.call(method, f"{filled(path)}?nothing=1")
        if reply.status == 422 and "requestBody" in operation and "nothing" not in reply.fields:
            assert operation["requestBody"]["required"], (method, path)  # the body comes first, and there is none
        else:
            assert (reply.status, reply.fields) == (422, ["nothing"]), (method, path)
        if "requestBody" in operation:
            seen += 1
            reply = world.door.call(method, filled(path), {"nothing": 1})
            assert reply.status == 422 and "nothing" in reply.fields, (method, path, reply)
    assert seen > 25


@NINJA
def test_ids_beyond_every_table_are_missing(world: World) -> None:
    for method, path, operation in calls():
        if "_id}" in path and not operation.get("requestBody", {}).get("required"):
            for number in HUGE:
                reply = world.door.call(method, filled(path, number))
                assert (reply.status, reply.data["type"]) == (404, "not-found"), (method, path, number)


@NINJA
def test_nul_and_broken_text_in_an_address_are_refused(world: World) -> None:
    for method, path, operation in calls():
        for one in operation.get("parameters", ()):
            kinds = str(one["schema"])
            if one["in"] == "query" and "string" in kinds:
                for text in ("%00", "a%00b", "%ED%A0%80", "%FF"):
                    address = f"/api/v1{filled(path)}?{one['name']}={text}"
                    status, _, _ = world.door.send(method, address, b"", {"authorization": f"Bearer {world.door.key}"})
                    refused = status in {404, 422}  # bytes that are no UTF-8 are read as U+FFFD
                    assert refused or (status == 200 and "%00" not in text), (address, status)


LISTS = ["/tasks", "/audit", "/keys", "/webhooks", "/classes", "/tenants", "/workers", "/dead-letters"]


@NINJA
def test_pages_stay_true_while_rows_come_and_go(world: World) -> None:
    """What was there all the time is told once, whatever else is inserted or deleted between two pages."""
    system = access.system("test")

    def grow(number: int) -> None:
        policy.create(system, "class", f"c{number}", {})
        policy.create(system, "tenant", f"t{number}", {})
        world.key("read")
        hook = {"name": f"h{number}", "url": "https://example.com"}
        world.door.post("/webhooks", hook)
        world.session(f"w{number}")
        Task.objects.filter(pk=world.task()).update(state=5, queued_at=None, finished_at="2030-01-01T00:00:00Z")

    for number in range(4):
        grow(number)

    def name(item: dict[str, Any]) -> Any:
        return item.get("id") or item["slug"]

    before = {path: [name(item) for item in world.door.get(path).data["items"]] for path in LISTS}
    gone = world.door.get("/keys").data["items"][2]["id"]
    told: dict[str, list[Any]] = {path: [] for path in LISTS}
    for path in LISTS:
        cursor, page = "", 0
        while cursor is not None:
            reply = world.door.get(f"{path}?limit=2{cursor}")
            assert reply.status == 200, reply
            told[path] += [name(item) for item in reply.data["items"]]
            cursor = reply.data["next_cursor"] and f"&cursor={reply.data['next_cursor']}"
            page += 1
            if page == 1:
                grow(10 + LISTS.index(path))
                if path == "/keys":
                    world.door.call("DELETE", f"/keys/{gone}")
    for path in LISTS:
        assert len(told[path]) == len(set(told[path])), (path, "nothing is told twice")
        assert set(before[path]) - {gone} <= set(told[path]) | {gone}, (path, "nothing is left out")


def test_counts_beyond_the_limits_are_refused(world: World) -> None:
    lease, session = world.lease(), world.session("w2")
    many = [f"c{number}" for number in range(65)]
    for path, body, field in (
        ("/tasks", {"tenant": "sales", "class": "background", "payload": 1, "capabilities": many[:17]}, "capabilities"),
        ("/tasks", {"tenant": "sales", "class": "background", "payload": 1, "tools": many[:9]}, "tools"),
        ("/workers", {"name": "w3", "capabilities": many, "slots": 1}, "capabilities"),
        ("/claims", {"session_id": session, "max": 1001}, "max"),
        ("/claims", {"session_id": session, "max": 1, "wait_s": 60.1}, "wait_s"),
        ("/heartbeats", {"session_id": session, "leases": [{"task_id": 1, "token": 1}] * 1001}, "leases"),
        ("/completions", {"outcomes": [{"task_id": 1, "token": 1, "outcome": "release"}] * 1001}, "outcomes"),
        ("/bulk", {"action": "requeue", "reason": "x", "filter": {"min_age_s": "5"}}, "filter.min_age_s"),
        (f"/tasks/{lease['task_id']}/fail", {"token": lease["token"]}, "error"),
    ):
        reply = world.door.post(path, body)
        assert (reply.status, reply.fields) == (422, [field]), (path, reply)
    assert world.door.get("/tasks?min_age_s=5").status == 200, "in an address a number is text"


ENDS: dict[str, dict[str, Any]] = {
    "complete": {"result": 1},
    "fail": {"error": {"message": "no", "kind": "permanent"}},
    "release": {"reason": "later"},
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_brings_the_next_lease_and_a_repeat_the_same_one(world: World, end: str) -> None:
    lease = world.lease()
    session = lease["session_id"]
    following = world.task()
    world.offer(following, session)
    claim = {"session_id": session, "max": 1, "wait_s": 0, "claim_id": f"after-{end}"}
    body = {"token": lease["token"], **ENDS[end], "claim": claim}
    first, again = (world.door.post(f"/tasks/{lease['task_id']}/{end}", body) for _ in range(2))
    assert first.status == again.status == 200, (first, again)
    assert [one["task_id"] for one in first.data["leases"]] == [following]
    assert [one["token"] for one in again.data["leases"]] == [one["token"] for one in first.data["leases"]]
    assert again.data["state"] == first.data["state"]


def test_a_batch_of_ends_brings_leases_and_a_repeat_the_same_ones(world: World) -> None:
    lease = world.lease()
    session = lease["session_id"]
    following = [world.task() for _ in range(2)]
    for task in following:
        world.offer(task, session)
    outcomes = [{"task_id": lease["task_id"], "token": lease["token"], "outcome": "complete", "result": 1}]
    claim = {"session_id": session, "max": 2, "wait_s": 0, "claim_id": "batch"}
    first, again = (world.door.post("/completions", {"outcomes": outcomes, "claim": claim}) for _ in range(2))
    assert sorted(one["task_id"] for one in first.data["leases"]) == following
    assert {one["token"] for one in again.data["leases"]} == {one["token"] for one in first.data["leases"]}
    assert [one["status"] for one in again.data["outcomes"]] == ["accepted"]
