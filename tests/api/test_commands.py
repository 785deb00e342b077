"""Operators' commands over work that exists, through both doors."""

import pytest

from tests.api.conftest import World
from tests.api.test_conventions import is_problem

pytestmark = pytest.mark.django_db(transaction=True)


def test_pause_and_resume(world: World) -> None:
    world.session("w1")
    for scope, slug in (
        ("all", None),
        ("pool", "default"),
        ("class", "background"),
        ("tenant", "sales"),
        ("worker", "w1"),
    ):
        body = {"scope": scope, "reason": "flood", **({"slug": slug} if slug else {})}
        paused = world.door.post("/pause", {**body, "until": "2999-01-01T00:00:00Z"})
        assert (paused.status, paused.data["paused"], paused.data["changed"]) == (200, True, 1), paused
        resumed = world.door.post("/resume", body)
        assert (resumed.status, resumed.data["paused"], resumed.data["changed"]) == (200, False, 1), resumed


def test_a_bad_pause_names_its_field(world: World) -> None:
    for field, body in (
        ("scope", {"scope": "user", "slug": "x", "reason": "x"}),
        ("slug", {"scope": "class", "reason": "x"}),
        ("slug", {"scope": "class", "slug": "nothing", "reason": "x"}),
        ("reason", {"scope": "all"}),
        ("until", {"scope": "all", "reason": "x", "until": "2001-01-01T00:00:00Z"}),
        ("until", {"scope": "all", "reason": "x", "until": "tomorrow"}),
        ("when", {"scope": "all", "reason": "x", "when": 3}),
    ):
        reply = world.door.post("/pause", body)
        is_problem(reply, 422, "validation", body)
        assert reply.fields == [field], body
    is_problem(world.door.post("/pause", {"scope": "all", "reason": "x"}, key=world.key("read")), 403, "forbidden")


def test_a_worker_is_steered(world: World) -> None:
    world.session("w1")
    (worker,) = world.door.get("/workers").data["items"]
    path = f"/workers/{worker['id']}"
    for change, state in (
        ({"draining": True}, "draining"),
        ({"paused": True}, "paused"),
        ({"quarantined": True}, "quarantined"),
        ({"quarantined": False, "paused": False, "draining": False, "weight": 3}, "live"),
    ):
        reply = world.door.call("PATCH", path, {**change, "reason": "x"})
        assert (reply.status, reply.data["state"]) == (200, state), reply
        assert reply.data.items() >= change.items()
    assert world.door.get(path).data["open_sessions"][0]["slots"] == 4
    for field, body in (("body", {}), ("weight", {"weight": 0}), ("weight", {"weight": None}), ("name", {"name": "x"})):
        reply = world.door.call("PATCH", path, body)
        is_problem(reply, 422, "validation", body)
        assert reply.fields == [field], body
    is_problem(world.door.call("PATCH", "/workers/999999", {"paused": True}), 404, "not-found")
    is_problem(world.door.get("/workers/99999999999999999999"), 404, "not-found")


def test_a_lease_is_revoked(world: World) -> None:
    lease = world.lease()
    is_problem(world.door.post(f"/leases/{lease['task_id']}/revoke", {}), 422, "validation")
    reply = world.door.post(f"/leases/{lease['task_id']}/revoke", {"reason": "wrong host"})
    assert (reply.status, reply.data) == (200, {"state": "queued"})
    is_problem(world.door.post(f"/leases/{lease['task_id']}/revoke", {"reason": "again"}), 409, "conflict")
    is_problem(world.door.post("/leases/999999/revoke", {"reason": "x"}), 404, "not-found")


def test_why_a_task_waits(world: World) -> None:
    task_id = world.task(capabilities=["ocr"])
    answer = world.door.get(f"/tasks/{task_id}/why")
    assert (answer.status, answer.data["startable"]) == (200, False), answer
    (blocker,) = answer.data["blockers"]
    assert (blocker["code"], blocker["limit"]) == ("no_capable_worker", "ocr")
    world.door.post("/pause", {"scope": "all", "reason": "fire"})
    codes = [blocker["code"] for blocker in world.door.get(f"/tasks/{task_id}/why").data["blockers"]]
    assert sorted(codes) == ["no_capable_worker", "paused"]
    world.door.post(f"/tasks/{task_id}/cancel", {})
    assert world.door.get(f"/tasks/{task_id}/why").data["blockers"] == []
    is_problem(world.door.get(f"/tasks/{task_id}/why", key=world.key("work")), 403, "forbidden")
    is_problem(world.door.get("/tasks/999999/why"), 404, "not-found")
