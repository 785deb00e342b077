"""Operators' calls: policy objects, keys, fleet, numbers, audit."""

import pytest

from tests.api.conftest import World
from tests.api.test_conventions import is_problem

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = {"pools": {"budget": 5}, "classes": {"weight": 6}, "tenants": {"max": 3}, "tools": {"max": 2}}


def test_objects_are_made_read_changed_and_listed(world: World) -> None:
    for plural, change in KINDS.items():
        made = world.door.post(f"/{plural}", {"slug": "extra"})
        assert made.status == 201, made
        found = world.door.get(f"/{plural}/extra")
        assert found.data["slug"] == "extra"
        body = {"version": found.data["version"], "reason": "more room", **change}
        changed = world.door.call("PATCH", f"/{plural}/extra", body)
        assert changed.status == 200, changed
        assert changed.data.items() >= change.items()
        stale = world.door.call("PATCH", f"/{plural}/extra", body)
        is_problem(stale, 409, "version-conflict")
        assert stale.data["current"]["version"] == changed.data["version"]
        assert "extra" in [item["slug"] for item in world.door.get(f"/{plural}").data["items"]]
        is_problem(world.door.post(f"/{plural}", {"slug": "extra"}), 409, "conflict")
        is_problem(world.door.get(f"/{plural}/nothing"), 404, "not-found")
        assert world.door.call("DELETE", f"/{plural}/extra?reason=unused").status == 204
        is_problem(world.door.call("DELETE", f"/{plural}/extra"), 404, "not-found")


def test_capabilities_have_only_a_name(world: World) -> None:
    assert world.door.post("/capabilities", {"slug": "gpu"}).status == 201
    assert world.door.get("/capabilities/gpu").status == 200
    is_problem(world.door.post("/capabilities", {"slug": "GPU"}), 422, "validation")


def test_weights_are_plain_numbers(world: World) -> None:
    version = world.door.get("/classes/background").data["version"]
    for raw in ("-1", "NaN", "null", "true", '"3"', "1e400", "0.0001", "1001", "[]"):
        body = f'{{"version": {version}, "reason": "x", "weight": {raw}}}'.encode()
        reply = world.door.call("PATCH", "/classes/background", raw=body)
        is_problem(reply, 422, "validation", raw)
        assert reply.fields == ["weight"], raw
    for weight in (0, 0.001, 1000, 2.5):
        body = {"version": version, "reason": "x", "weight": weight}
        reply = world.door.call("PATCH", "/classes/background", body)
        assert (reply.status, reply.data["weight"]) == (200, weight)
        version = reply.data["version"]


def test_a_change_names_its_version_and_reason(world: World) -> None:
    reply = world.door.call("PATCH", "/classes/background", {"weight": 3})
    is_problem(reply, 422, "validation")
    assert sorted(reply.fields) == ["reason", "version"]
    reply = world.door.call("PATCH", "/classes/background", {"version": 1, "reason": "x", "wait": 3})
    assert reply.fields == ["wait"]


def test_a_key_is_shown_whole_once(world: World) -> None:
    body = {"name": "agent 7", "scopes": ["work"], "tenant": "sales"}
    headers = {"idempotency-key": "k"}
    made = world.door.post("/keys", body, headers=headers)
    assert made.status == 201
    assert made.data["key"].startswith(f"ef_{made.data['prefix']}_")
    assert world.door.post("/keys", body, headers=headers).data == {**made.data, "key": None}
    listed = world.door.get("/keys").data["items"]
    assert made.data["key"] not in str(listed)
    assert (
        world.door.post("/workers", {"name": "w", "capabilities": [], "slots": 1}, key=made.data["key"]).status == 201
    )
    assert world.door.call("DELETE", f"/keys/{made.data['id']}").status == 204
    is_problem(world.door.get("/workers", key=made.data["key"]), 401, "unauthenticated")
    is_problem(world.door.call("DELETE", f"/keys/{made.data['id']}"), 404, "not-found")


def test_keys_need_known_scopes(world: World) -> None:
    for scopes in ([], ["root"], "work", None):
        is_problem(world.door.post("/keys", {"name": "x", "scopes": scopes}), 422, "validation")


def test_the_fleet_the_numbers_and_the_audit_are_readable(world: World) -> None:
    world.session("w1")
    assert [worker["name"] for worker in world.door.get("/workers").data["items"]] == ["w1"]
    stats = world.door.get("/stats?window_s=60").data
    assert {"classes", "tenants", "workers", "dead", "slots_wanted"} <= set(stats)
    world.door.post("/tools", {"slug": "crm"})
    newest = world.door.get("/audit?limit=1").data["items"][0]
    assert (newest["action"], newest["target"]) == ("create_tool", "crm")
    for path in ("/stats?window_s=0", "/stats?pool=nothing", "/audit?colour=red", "/workers?pool=nothing"):
        is_problem(world.door.get(path), 422, "validation", path)


def test_a_lease_is_taken_back_once_and_for_a_reason(world: World) -> None:
    lease = world.lease()
    path = f"/leases/{lease['task_id']}/revoke"
    is_problem(world.door.post(path, {}), 422, "validation")
    is_problem(world.door.post(path, {"reason": "stuck"}, key=world.key("work")), 403, "forbidden")
    assert world.door.post(path, {"reason": "stuck"}).data == {"state": "queued"}
    is_problem(world.door.post(path, {"reason": "stuck"}), 409, "conflict")
    is_problem(world.door.post("/leases/123456/revoke", {"reason": "stuck"}), 404, "not-found")
    late = world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"]})
    is_problem(late, 409, "lease-lost")


def test_the_audit_is_filtered_and_saved_as_a_sheet(world: World) -> None:
    world.door.post("/tools", {"slug": "crm"})
    assert [item["target"] for item in world.door.get("/audit?action=create_tool&target_kind=tool").data["items"]] == [
        "crm"
    ]
    assert world.door.get("/audit?only=refused").data["items"] == []
    assert world.door.get("/audit?colour=red").fields == ["colour"]
    assert world.door.get("/audit?tenant=nobody").fields == ["tenant"]
    sheet = world.door.send(
        "GET", "/api/v1/audit.csv?target_kind=tool", b"", {"authorization": f"Bearer {world.door.key}"}
    )
    lines = sheet[2].decode().splitlines()
    assert (sheet[0], sheet[1]["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert lines[0].startswith("id,at,actor_kind,actor_name,action")
    assert len(lines) == 2
    assert world.door.get("/audit.csv?colour=red").fields == ["colour"]
    is_problem(world.door.get("/audit.csv", key=world.key("submit")), 403, "forbidden")
