"""Limits inside a tenant and requests for more, over the API; the limits of a tenant answer 429 with a number."""

import pytest

from tests.api.conftest import World
from tests.api.planes import Door
from tests.api.test_conventions import is_problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("world", [Door], indirect=True)]


@pytest.mark.parametrize(("plural", "name"), [("users", "ann"), ("users", "-"), ("classes", "background")])
def test_limits_inside_a_tenant(world: World, plural: str, name: str) -> None:
    path = f"/tenants/sales/{plural}"
    is_problem(world.door.get(f"{path}/{name}"), 404, "not-found")
    put = world.door.call("PUT", f"{path}/{name}", {"max": 3, "reason": "busy"})
    assert (put.status, put.data["max"], put.data["ceiling"]) == (200, 3, 3)
    assert world.door.get(f"{path}/{name}").data == put.data
    assert [item["max"] for item in world.door.get(path).data["items"]] == [3]
    stale = world.door.call("PUT", f"{path}/{name}", {"max": 4, "version": 7})
    is_problem(stale, 409, "version-conflict")
    assert stale.data["current"]["max"] == 3
    theirs = world.key("read", "operate", tenant="sales")
    assert world.door.call("PUT", f"{path}/{name}", {"max": 1}, key=theirs).status == 200
    above = world.door.call("PUT", f"{path}/{name}", {"max": 4}, key=theirs)
    is_problem(above, 422, "validation")
    assert "at most 3" in above.data["detail"]
    assert world.door.call("DELETE", f"{path}/{name}?reason=done").status == 204
    assert world.door.get(f"{path}/{name}").data["max"] is None
    for body, field in (({"max": -1}, "max"), ({"max": True}, "max"), ({"least": 1}, "least")):
        reply = world.door.call("PUT", f"{path}/{name}", body)
        is_problem(reply, 422, "validation")
        assert reply.fields == [field]
    is_problem(world.door.call("PUT", "/tenants/nobody/users/ann", {}), 404, "not-found")
    is_problem(world.door.call("PUT", f"{path}/{name}", {}, key=world.key("read")), 403, "forbidden")


def test_a_department_lowers_its_maximum_and_asks_for_more(world: World) -> None:
    theirs = world.key("read", "operate", tenant="sales")
    version = world.door.call("PATCH", "/tenants/sales", {"version": 1, "reason": "x", "max": 5}).data["version"]
    lowered = world.door.call("PATCH", "/tenants/sales", {"version": version, "reason": "x", "max": 2}, key=theirs)
    assert (lowered.status, lowered.data["ceilings"]) == (200, {"max": 5})
    body = {"version": lowered.data["version"], "reason": "x", "max": 6}
    above = world.door.call("PATCH", "/tenants/sales", body, key=theirs)
    assert above.fields == ["max"]
    weight = {"version": lowered.data["version"], "reason": "x", "weight": 9}
    is_problem(world.door.call("PATCH", "/tenants/sales", weight, key=theirs), 403, "forbidden")
    asked = world.door.post(
        "/quota-requests",
        {"tenant": "sales", "changes": {"max": 9}, "classes": {"background": 4}, "reason": "quarter end"},
        key=theirs,
    )
    assert (asked.status, asked.data["state"]) == (201, "open")
    path = f"/quota-requests/{asked.data['id']}"
    assert world.door.get("/quota-requests?state=open&tenant=sales").data["items"] == [asked.data]
    assert world.door.get(f"{path}/preview").data["errors"] == []
    is_problem(world.door.get(f"{path}/preview", key=theirs), 403, "forbidden")
    current = world.door.get(path).data["current"]
    is_problem(world.door.post(f"{path}/approve", {"version": current["version"]}, key=theirs), 403, "forbidden")
    is_problem(world.door.post(f"{path}/approve", {"version": 0}), 409, "version-conflict")
    done = world.door.post(f"{path}/approve", {"version": current["version"], "note": "fine"})
    assert (done.status, done.data["state"], done.data["current"]["max"]) == (200, "approved", 9)
    is_problem(world.door.post(f"{path}/refuse", {"note": "no"}), 409, "conflict")
    is_problem(world.door.post(f"{path}/withdraw", key=theirs), 409, "conflict")
    is_problem(world.door.get("/quota-requests/999"), 404, "not-found")
    nothing = {"tenant": "sales", "changes": {"weight": 3}, "reason": "x"}
    assert world.door.post("/quota-requests", nothing).fields == ["changes.weight"]


def test_limits_on_submits_answer_429_with_the_limit_and_when_to_come_back(world: World) -> None:
    def limit(**fields: int | None) -> None:
        version = world.door.get("/tenants/sales").data["version"]
        assert world.door.call("PATCH", "/tenants/sales", {"version": version, "reason": "x", **fields}).status == 200

    task = {"tenant": "sales", "class": "background", "payload": 1}
    limit(max_queued=2)
    assert world.door.post("/tasks", {"tasks": [task, task]}).status == 201
    full = world.door.post("/tasks", task)
    is_problem(full, 429, "rate-limited")
    assert "2 of at most 2 waiting tasks" in full.data["detail"]
    limit(max_queued=None, submit_per_minute=3)
    assert world.door.post("/tasks", task).status == 201
    fast = world.door.post("/tasks", task)
    is_problem(fast, 429, "rate-limited")
    assert "3 tasks a minute" in fast.data["detail"]
    assert 1 <= int(fast.headers["retry-after"]) <= 60
