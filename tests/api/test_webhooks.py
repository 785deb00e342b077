"""Webhooks over the API: made, tested, changed, rotated, deleted; scopes; the document."""

from typing import Any

import pytest

from tests.api.conftest import World
from tests.api.planes import Door

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("world", [Door], indirect=True)]

HOOK = {"name": "ci", "url": "https://example.com/hook"}


def test_a_webhooks_life(world: World) -> None:
    made = world.door.post("/webhooks", HOOK)
    assert made.status == 201 and made.data["secret"].startswith("whsec_")
    assert made.data["events"] == ["task.cancelled", "task.dead", "task.succeeded"]
    path = f"/webhooks/{made.data['id']}"
    assert world.door.get(path).data == {k: v for k, v in made.data.items() if k != "secret"}
    assert world.door.get("/webhooks?tenant=sales").data["items"] == []
    sent = world.door.post(f"{path}/test")
    assert (sent.status, sent.data["state"]) == (202, "pending")
    task = world.task(key="order-1")
    world.door.post(f"/tasks/{task}/cancel", {})
    newest = world.door.get(f"{path}/deliveries?state=pending&limit=1")
    assert newest.data["items"][0]["data"]["key"] == "order-1" and newest.data["next_cursor"]
    assert world.door.get(f"{path}/deliveries?state=gone").fields == ["state"]
    assert world.door.post(f"{path}/deliveries/{sent.data['id']}/redeliver").status == 409
    turned = world.door.post(f"{path}/rotate", {"overlap_s": 60})
    assert turned.status == 200 and turned.data["secret"] != made.data["secret"] and turned.data["old_until"]
    changed = world.door.call("PATCH", path, {"enabled": False, "events": ["task.dead"], "reason": "holidays"})
    assert (changed.status, changed.data["enabled"], changed.data["events"]) == (200, False, ["task.dead"])
    assert world.door.post(f"{path}/test").status == 409
    assert world.door.call("DELETE", f"{path}?reason=over").status == 204
    assert world.door.get(path).status == 404


def test_what_is_refused(world: World) -> None:
    def fields(**given: Any) -> list[str]:
        reply = world.door.post("/webhooks", HOOK | given)
        assert reply.status == 422, reply
        return reply.fields

    assert fields(url="http://example.com/") == ["url"]
    assert fields(url="https://169.254.169.254/") == ["url"]
    assert fields(url="https://example.com/\0") == ["url"]
    assert fields(events=["task.started"]) == ["events[0]"]
    assert fields(name="") == ["name"]
    assert fields(secret="mine") == ["secret"]
    assert fields(tenant="nobody") == ["tenant"]
    read = world.key("read", "submit", "work", "admin")
    assert world.door.get("/webhooks", key=read).status == 403
    assert world.door.post("/webhooks", HOOK, key=read).status == 403
    own = world.door.post("/webhooks", HOOK, key=world.key("operate", tenant="sales"))
    assert (own.status, own.data["tenant"]) == (201, "sales")


def test_a_repeated_creation_tells_no_secret(world: World) -> None:
    first, second = (world.door.post("/webhooks", HOOK, headers={"idempotency-key": "one"}) for _ in range(2))
    assert second.data == first.data | {"secret": None}
