"""Dead letters and bulk jobs, through both doors."""

import pytest

from dispatch.services import bulk_run
from tests.api.conftest import World
from tests.api.test_conventions import is_problem
from tests.services.world import bury

pytestmark = pytest.mark.django_db(transaction=True)


def dead(world: World, count: int = 3) -> list[int]:
    ids = [world.task() for _ in range(count)]
    for id_ in ids:
        bury(id_, fingerprint="abc", error={"message": "timeout"})
    return ids


def test_dead_letters_are_grouped_and_listed(world: World) -> None:
    ids = dead(world)
    (group,) = world.door.get("/dead-letters/groups").data["items"]
    assert (group["fingerprint"], group["count"], group["message"]) == ("abc", 3, "timeout")
    listed = world.door.get("/dead-letters?fingerprint=abc&tenant=sales&class=background&limit=2").data
    assert [item["id"] for item in listed["items"]] == ids[:0:-1]
    rest = world.door.get(f"/dead-letters?fingerprint=abc&limit=2&cursor={listed['next_cursor']}").data
    assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == (ids[:1], None)
    for path in ("/dead-letters?state=queued", "/dead-letters?colour=red", "/dead-letters?tenant=nobody"):
        is_problem(world.door.get(path), 422, "validation", path)


def test_a_bulk_job_from_dry_run_to_done(world: World) -> None:
    ids = dead(world)
    body = {"action": "requeue", "filter": {"fingerprint": "abc"}, "reason": "mended"}
    frozen = world.door.post("/bulk", {**body, "dry_run": True})
    assert (frozen.status, frozen.data["state"], frozen.data["matched"]) == (202, "dry_run", 3), frozen
    path = f"/bulk/{frozen.data['id']}"
    started = world.door.post("/bulk", {"from": frozen.data["id"], "rate_per_s": 0.001})
    assert (started.status, started.data["id"], started.data["state"]) == (202, frozen.data["id"], "running")
    assert world.door.post(f"{path}/pause", {}).data["state"] == "paused"
    is_problem(world.door.post(f"{path}/pause", {}), 409, "conflict")
    assert world.door.post(f"{path}/resume", {}).data["state"] == "running"
    done = world.door.post("/bulk", body)
    bulk_run.advance()
    bulk_run.advance()
    found = world.door.get(f"/bulk/{done.data['id']}").data
    assert (found["state"], found["done"], found["skipped"], found["new"]) == ("done", 3, [], 0)
    assert world.door.get(f"/tasks/{ids[0]}").data["state"] == "queued"
    assert world.door.post(f"{path}/abort", {}).data["state"] == "aborted"
    assert world.door.post(f"{path}/undo", {}).data["done"] == 0
    assert [item["id"] for item in world.door.get("/bulk").data["items"]] == [done.data["id"], frozen.data["id"]]


def test_bad_bulk_jobs_name_their_field(world: World) -> None:
    good = {"action": "requeue", "filter": {"tenant": "sales"}, "reason": "x"}
    for field, body in (
        ("filter", {**good, "filter": {}}),
        ("filter", {**good, "filter": None}),
        ("filter.colour", {**good, "filter": {"colour": "red"}}),
        ("filter.tenant", {**good, "filter": {"tenant": "nobody"}}),
        ("filter.tenant", {**good, "filter": {"tenant": 3}}),
        ("action", {**good, "action": "delete"}),
        ("reason", {"action": "requeue", "filter": {"tenant": "sales"}}),
        ("rate_per_s", {**good, "rate_per_s": 0}),
        ("stop_above", {**good, "stop_above": 2}),
        ("canary", {**good, "action": "cancel", "canary": 1}),
        ("from", {**good, "from": 1}),
    ):
        reply = world.door.post("/bulk", body)
        is_problem(reply, 422, "validation", body)
        assert reply.fields == [field], body
    is_problem(world.door.post("/bulk", {"from": 999999}), 404, "not-found")
    is_problem(world.door.get("/bulk/999999"), 404, "not-found")
    is_problem(world.door.post("/bulk", good, key=world.key("read", "submit")), 403, "forbidden")
