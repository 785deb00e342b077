"""Operators' commands over work that exists, through both doors."""

import time

import pytest

from dispatch.models import Alert, AuditEvent
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


def test_a_worker_is_deleted_once_it_holds_nothing(world: World) -> None:
    session = world.session("w1")
    lease = world.lease(session)
    (worker,) = world.door.get("/workers").data["items"]
    path = f"/workers/{worker['id']}"
    reply = world.door.call("DELETE", path)
    is_problem(reply, 409, "conflict")
    assert reply.data["leases"] == 1, "refused with the number"
    world.door.call("PATCH", path, {"draining": True, "weight": 3})
    assert world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"]}).status == 200
    is_problem(world.door.call("DELETE", path, key=world.key("read")), 403, "forbidden")
    assert world.door.call("DELETE", f"{path}?reason=scrapped").status == 204
    is_problem(world.door.call("DELETE", path), 404, "not-found")
    is_problem(world.door.get(path), 404, "not-found")
    assert world.door.get("/workers").data["items"] == []
    claim = {"session_id": session, "max": 1, "wait_s": 0}
    is_problem(world.door.post("/claims", claim), 404, "not-found")
    history = world.door.get(f"/tasks/{lease['task_id']}").data["history"]
    assert "w1" in [entry.get("worker") for entry in history], "attempts keep its name"
    world.session("w1")
    (again,) = world.door.get("/workers").data["items"]
    assert (again["state"], again["weight"]) == ("live", 1), "the name makes it anew"


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


def test_a_waiting_task_is_edited(world: World) -> None:
    task_id = world.task()
    path = f"/tasks/{task_id}"
    for change, state in (
        ({"priority": 5, "payload": {"n": 2}, "cost": 3}, "queued"),
        ({"run_at": "2999-01-01T00:00:00Z"}, "scheduled"),
        ({"run_at": None, "deadline": None}, "queued"),
        ({"held": True, "reason": "odd"}, "held"),
        ({"held": False}, "queued"),
    ):
        reply = world.door.call("PATCH", path, change)
        assert (reply.status, reply.data["state"]) == (200, state), reply
    assert world.door.get(path).data["payload"] == {"n": 2}
    for field, body in (
        ("body", {}),
        ("tenant", {"tenant": "x"}),
        ("priority", {"priority": "1"}),
        ("payload.a", {"payload": {"a": "\0"}}),
        ("run_at", {"run_at": 5}),
        ("held", {"held": None}),
    ):
        reply = world.door.call("PATCH", path, body)
        is_problem(reply, 422, "validation", body)
        assert reply.fields == [field], body
    lease = world.lease()
    is_problem(world.door.call("PATCH", f"/tasks/{lease['task_id']}", {"priority": 1}), 409, "conflict")
    is_problem(world.door.call("PATCH", "/tasks/999999", {"priority": 1}), 404, "not-found")


def test_ends_are_learned_without_asking_for_each_task(world: World) -> None:
    lease = world.lease(key="k1")
    world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"], "result": {"ok": True}})
    time.sleep(0.2)
    told = world.door.get("/tasks/changes").data
    assert [(item["id"], item["state"], item["key"]) for item in told["items"]] == [
        (lease["task_id"], "succeeded", "k1")
    ]
    again = world.door.get(f"/tasks/changes?cursor={told['next_cursor']}").data
    assert (again["items"], again["more"]) == ([], False)
    for path in ("/tasks/changes?cursor=x", "/tasks/changes?tenant=nobody", "/tasks/changes?since=3"):
        is_problem(world.door.get(path), 422, "validation", path)


def test_alerts_are_acknowledged(world: World) -> None:
    alert = Alert.objects.create(rule="stalled", subject="w1", severity="warning", text="x", evidence={})
    assert [one["state"] for one in world.door.get("/alerts?state=open").data["items"]] == ["firing"]
    reply = world.door.post(f"/alerts/{alert.pk}/ack", {"note": "on it", "until": "2999-01-01T00:00:00Z"})
    assert (reply.status, reply.data["state"]) == (200, "acknowledged"), reply
    for field, body in (("note", {}), ("until", {"note": "x", "until": "2001-01-01T00:00:00Z"})):
        refused = world.door.post(f"/alerts/{alert.pk}/ack", body)
        is_problem(refused, 422, "validation", body)
        assert refused.fields == [field]
    is_problem(world.door.get("/alerts?state=red"), 422, "validation")
    is_problem(world.door.post("/alerts/999999/ack", {"note": "x"}), 404, "not-found")


def test_alerts_are_silenced(world: World) -> None:
    alert = Alert.objects.create(rule="stalled", subject="w1", severity="warning", text="x", evidence={})
    until = {"note": "deploy", "until": "2999-01-01T00:00:00Z"}
    made = world.door.post("/silences", {**until, "matcher": {"rule": "stalled"}})
    assert (made.status, made.data["state"]) == (201, "active"), made
    assert world.door.get(f"/alerts/{alert.pk}").data["muted"] == "silenced"
    assert [one["id"] for one in world.door.get("/silences").data["items"]] == [made.data["id"]]
    assert world.door.call("DELETE", f"/silences/{made.data['id']}").status == 204
    is_problem(world.door.call("DELETE", f"/silences/{made.data['id']}"), 409, "conflict")
    for matcher in ({}, {"class": 3}, {"work_class": "x"}):
        is_problem(world.door.post("/silences", {**until, "matcher": matcher}), 422, "validation", matcher)


def test_alert_rules_are_set(world: World) -> None:
    rules = {one["rule"]: one for one in world.door.get("/alert-rules").data["items"]}
    assert {"queue_age_rising", "near_zero_dispatch", "queue_slo"} <= rules.keys()
    edit = {"version": 0, "reason": "noise", "thresholds": {"window_s": 90}}
    reply = world.door.call("PATCH", "/alert-rules/near_zero_dispatch", {**edit, "class": "background"})
    assert (reply.status, reply.data["classes"][0]["thresholds"]) == (200, {"window_s": 90}), reply
    is_problem(
        world.door.call("PATCH", "/alert-rules/near_zero_dispatch", {**edit, "version": 9}), 409, "version-conflict"
    )
    is_problem(world.door.call("PATCH", "/alert-rules/nothing", edit), 404, "not-found")
    for body in (
        {**edit, "thresholds": {"x": 1}},
        {**edit, "thresholds": {"window_s": "1"}},
        {"version": 0, "reason": "x"},
    ):
        is_problem(world.door.call("PATCH", "/alert-rules/near_zero_dispatch", body), 422, "validation", body)


def test_the_audit_and_the_answer_carry_the_id_of_the_request(world: World) -> None:
    body = {"slug": "crm"}
    reply = world.door.call("POST", "/tools", body, headers={"x-request-id": "r-17"})
    assert (reply.status, reply.headers["x-request-id"]) == (201, "r-17"), reply
    assert AuditEvent.objects.get(action="create_tool").request_id == "r-17"


def test_a_key_is_rotated(world: World) -> None:
    made = world.door.post("/keys", {"name": "robot", "scopes": ["read"]}).data
    reply = world.door.post(f"/keys/{made['id']}/rotate", {"overlap_s": 60}, headers={"idempotency-key": "r"})
    assert reply.status == 200, reply
    for key in (made["key"], reply.data["key"]):
        assert world.door.get("/tasks", key=key).status == 200
    again = world.door.post(f"/keys/{made['id']}/rotate", {"overlap_s": 60}, headers={"idempotency-key": "r"})
    assert (again.data["id"], again.data["key"]) == (reply.data["id"], None)
    world.door.post(f"/keys/{reply.data['id']}/rotate", {})
    is_problem(world.door.get("/tasks", key=reply.data["key"]), 401, "unauthenticated")
    is_problem(world.door.post(f"/keys/{reply.data['id']}/rotate", {"overlap_s": -1}), 422, "validation")
    is_problem(world.door.post("/keys/999999/rotate", {}), 404, "not-found")
