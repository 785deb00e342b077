"""Every answer of both planes carries a request id and the security headers; the id reaches the audit."""

import asyncio
from typing import Any

import pytest
from django.test import Client

from controlplane.envelope import Envelope
from dispatch.models import AuditEvent
from tests.api.conftest import World
from tests.api.planes import HotDoor, exchange

pytestmark = pytest.mark.django_db(transaction=True)
EXPECTED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def headers(sent: list[dict[str, Any]]) -> dict[str, str]:
    found = [(name.decode().lower(), value.decode()) for name, value in sent[0]["headers"]]
    assert len({name for name, _ in found}) == len(found), "no header twice"
    return dict(found)


@pytest.mark.parametrize("world", [HotDoor], indirect=True)
def test_answers_of_the_hot_plane_good_and_bad_carry_them(world: World) -> None:
    door = world.door
    assert isinstance(door, HotDoor)
    sealed = Envelope(door.plane)
    sent = {"authorization": f"Bearer {door.key}", "content-type": "application/json", "x-request-id": "r-1"}
    body = b'{"tenant": "sales", "class": "background", "payload": 1}'
    for given, status in ((sent, 201), ({**sent, "authorization": "Bearer x"}, 401)):
        answer = door.run(exchange(sealed, "POST", "/api/v1/tasks", body, given))
        assert answer[0]["status"] == status
        assert headers(answer).items() >= {**EXPECTED, "x-request-id": "r-1"}.items()


def test_pages_keep_their_own_policy_and_a_strange_id_is_replaced() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        own = [(b"Content-Security-Policy", b"default-src 'self'"), (b"X-Frame-Options", b"SAMEORIGIN")]
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    answer = headers(asyncio.run(exchange(Envelope(app), "GET", "/", b"", {"x-request-id": "<script>"})))
    assert answer["content-security-policy"] == "default-src 'self'"
    assert answer["x-frame-options"] == "SAMEORIGIN"
    assert "cache-control" not in answer
    assert answer["x-request-id"].isalnum()
    assert len(answer["x-request-id"]) == 32


def test_the_request_id_of_a_command_is_in_the_audit(world: World) -> None:
    world.door.post("/tools", {"slug": "crm"}, headers={"x-request-id": "deploy-17"})
    assert AuditEvent.objects.latest("id").request_id == "deploy-17"
    world.door.post("/tools", {"slug": "erp"}, headers={"x-request-id": "no good"})
    assert len(AuditEvent.objects.latest("id").request_id) == 32


def test_a_strange_host_is_named_in_the_refusal() -> None:
    answer = Client(headers={"Host": "elsewhere.example"}).get("/api/v1/me")
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (422, ["Host"])
