"""Keys in the hands of agents, through both planes: whose token, rotation with an overlap, revocation, expiry."""

import pytest

from dispatch.models import ApiKey
from dispatch.services import access
from tests.api.conftest import World
from tests.api.test_conventions import is_problem

pytestmark = pytest.mark.django_db(transaction=True)


def made(world: World, **fields: object) -> tuple[int, str]:
    """A fresh agent's key: id and the whole key."""
    reply = world.door.post("/keys", {"name": "agents", "scopes": ["work"], **fields})
    assert reply.status == 201, reply
    return reply.data["id"], reply.data["key"]


def leased(world: World, key: str) -> tuple[int, dict[str, int]]:
    """A session of this key and one lease that it claimed."""
    session = world.session("w1", key)
    world.offer(world.task(), session)
    (lease,) = world.door.post("/claims", {"session_id": session, "max": 1, "wait_s": 0}, key=key).data["leases"]
    return session, lease


def beat(world: World, session: int, lease: dict[str, int], key: str) -> int:
    body = {"session_id": session, "leases": [{"task_id": lease["task_id"], "token": lease["token"]}]}
    return world.door.post("/heartbeats", body, key=key).status


def test_a_token_is_good_for_the_key_that_opened_the_session_or_for_operate(world: World) -> None:
    (_, mine), (_, other) = made(world), made(world)
    session, lease = leased(world, mine)
    path, body = f"/tasks/{lease['task_id']}/complete", {"token": lease["token"]}
    assert beat(world, session, lease, other) == 404
    is_problem(world.door.post(path, body, key=other), 409, "lease-lost")
    is_problem(world.door.post(path, body, key=world.key("read", "work", tenant="sales")), 409, "lease-lost")
    assert beat(world, session, lease, mine) == 200
    assert world.door.post(path, body, key=world.key("operate", "work")).status == 200


def test_rotation_lets_the_old_key_finish_what_it_holds(world: World) -> None:
    old_id, old = made(world)
    session, lease = leased(world, old)
    new = world.door.post(f"/keys/{old_id}/rotate", {"overlap_s": 60}).data["key"]
    assert beat(world, session, lease, old) == 200
    assert beat(world, session, lease, new) == 404, "the session belongs to the key that opened it"
    assert world.session("w1", new) != session
    assert world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"]}, key=old).status == 200
    ApiKey.objects.filter(pk=old_id).update(expires_at="2020-01-01T00:00:00Z")
    access.forget_keys()
    is_problem(world.door.post("/heartbeats", {"session_id": session, "leases": []}, key=old), 401, "unauthenticated")
    assert world.door.post("/heartbeats", {"session_id": session, "leases": []}, key=new).status == 404


def test_a_revoked_key_is_dead_at_once_here_and_after_five_seconds_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id, raw = made(world)
    session, lease = leased(world, raw)
    assert world.door.call("DELETE", f"/keys/{key_id}").status == 204
    assert beat(world, session, lease, raw) == 401
    is_problem(
        world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"]}, key=raw),
        401,
        "unauthenticated",
    )
    key_id, raw = made(world)
    session = world.session("w2", raw)
    ApiKey.objects.filter(pk=key_id).update(revoked_at="2020-01-01T00:00:00Z")  # by another process
    assert world.door.post("/heartbeats", {"session_id": session, "leases": []}, key=raw).status == 200
    start = access.time.monotonic()
    monkeypatch.setattr(access.time, "monotonic", lambda: start + access.CACHE_TTL_S)
    assert world.door.post("/heartbeats", {"session_id": session, "leases": []}, key=raw).status == 401


def test_a_key_of_a_tenant_or_pool_works_for_that_alone(world: World) -> None:
    world.door.post("/pools", {"slug": "other"})
    _, raw = made(world, pool="other")
    elsewhere = world.door.post("/workers", {"name": "w", "pool": "default", "capabilities": [], "slots": 1}, key=raw)
    assert elsewhere.fields == ["pool"], elsewhere
    _, bound = made(world, tenant="sales", scopes=["submit"])
    world.door.post("/tenants", {"slug": "beta"})
    theirs = world.door.post("/tasks", {"tenant": "beta", "class": "background", "payload": 1}, key=bound)
    nobodys = world.door.post("/tasks", {"tenant": "gamma", "class": "background", "payload": 1}, key=bound)
    assert (theirs.status, theirs.data) == (nobodys.status, nobodys.data)
