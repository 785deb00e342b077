"""The socket of the live pages: who may open it, what it sends, how it recovers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.test import Client

from dispatch.live import consumer, hub
from dispatch.live.routing import websocket
from dispatch.models import User
from dispatch.services import access, people

pytestmark = pytest.mark.django_db(transaction=True)
Browse = Callable[..., Client]


@asynccontextmanager
async def opened(client: Client, topic: str = "overview", origin: str = "http://testserver") -> AsyncIterator[Any]:
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    headers = [(b"origin", origin.encode()), (b"host", b"testserver"), (b"cookie", cookie.encode())]
    socket = WebsocketCommunicator(websocket, f"/ws/live?topic={topic}", headers)
    try:
        yield socket
    finally:
        await socket.disconnect()


async def heard(socket: Any) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await socket.receive_from(timeout=5))
    return message


async def closed_with(socket: Any) -> int:
    accepted, code = await socket.connect()
    if not accepted:
        return int(code)
    message = await socket.receive_output(timeout=5)
    assert message["type"] == "websocket.close"
    return int(message["code"])


@pytest.mark.parametrize("path", ["/", "/ws/other", "/api/v1/me", "/ws/live/"])
def test_another_address_is_refused(path: str) -> None:
    async def story() -> None:
        socket = WebsocketCommunicator(websocket, path, [(b"host", b"testserver")])
        assert await closed_with(socket) == consumer.UNKNOWN
        await socket.disconnect()

    asyncio.run(story())


def test_a_viewer_gets_everything_then_numbered_changes(task: Callable[..., int], browse: Browse) -> None:
    client = browse()

    async def story() -> None:
        async with opened(client) as socket:
            assert (await socket.connect())[0]
            first = await heard(socket)
            assert first["full"] and first["topic"] == "overview" and first["changes"]["t.queued"] == "0"
            await database_sync_to_async(task)()
            found, seq = {}, first["seq"]
            for _ in range(4):
                message = await heard(socket)
                assert message["seq"] == seq + 1 and "full" not in message
                seq, found = message["seq"], found | message["changes"]
                if found.get("t.queued") == "1":
                    break
            assert found["t.queued"] == "1" and found["c.interactive.queued"] == "1 queued"
            assert "tenants" not in found, "what did not change is not sent"

    asyncio.run(story())


def test_a_change_arrives_within_a_second(task: Callable[..., int], browse: Browse) -> None:
    client = browse()

    async def story() -> float:
        loop = asyncio.get_running_loop()
        async with opened(client) as socket:
            await socket.connect()
            await heard(socket)
            await asyncio.sleep(0.3)
            await database_sync_to_async(task)()
            started = loop.time()
            while (await heard(socket))["changes"].get("t.queued") != "1":
                pass
            return loop.time() - started

    assert asyncio.run(story()) < 1.0


def test_a_resync_brings_everything_and_noise_is_ignored(pool: None, browse: Browse) -> None:
    client = browse()

    async def story() -> None:
        async with opened(client) as socket:
            await socket.connect()
            await heard(socket)
            for noise in ["{", "[" * 1000, "[1]", '"x"', '{"type": "other"}', '{"type": "resync"' + " " * 2000 + "}"]:
                await socket.send_to(text_data=noise)
            await socket.send_to(text_data='{"type": "resync"}')
            messages = [await heard(socket) for _ in range(2)]
            assert sum("full" in message for message in messages) == 1

    asyncio.run(story())


@pytest.mark.parametrize("origin", ["http://evil.example", "", "null", "http://testserver.evil.example"])
def test_foreign_origins_are_refused(origin: str, pool: None, browse: Browse) -> None:
    client = browse()

    async def story() -> int:
        async with opened(client, origin=origin) as socket:
            return await closed_with(socket)

    assert asyncio.run(story()) == consumer.FORBIDDEN


def test_strangers_and_signed_out_people_hear_nothing(pool: None, browse: Browse) -> None:
    stranger = browse("")

    async def code(client: Client, topic: str = "overview") -> int:
        async with opened(client, topic) as socket:
            return await closed_with(socket)

    assert asyncio.run(code(Client())) == consumer.SIGNED_OUT
    assert asyncio.run(code(stranger)) == consumer.FORBIDDEN
    assert asyncio.run(code(browse("auditor"), "passwords")) == consumer.UNKNOWN


def test_a_right_taken_away_closes_the_socket(pool: None, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browse()
    monkeypatch.setattr(consumer, "RECHECK_S", 0.1)

    async def story() -> int:
        async with opened(client) as socket:
            await socket.connect()
            await heard(socket)
            await database_sync_to_async(User.objects.update)(role="")
            while (message := await socket.receive_output(timeout=5))["type"] != "websocket.close":
                pass
            return int(message["code"])

    assert asyncio.run(story()) == consumer.SIGNED_OUT


def test_signing_out_closes_the_sockets_of_the_session(pool: None, browse: Browse) -> None:
    client = browse()
    person, key = User.objects.get(), client.session.session_key
    layer = get_channel_layer()
    assert layer is not None

    async def story() -> int:
        async with opened(client) as socket:
            await socket.connect()
            await heard(socket)
            await layer.group_send(f"person.{person.pk}", {"type": "person.left", "session": "another"})
            left = {"type": "person.left", "session": key}
            await layer.group_send(f"person.{person.pk}", left)
            while (message := await socket.receive_output(timeout=5))["type"] != "websocket.close":
                pass
            return int(message["code"])

    assert asyncio.run(story()) == consumer.SIGNED_OUT


@pytest.mark.parametrize("change", ["role", "deactivated", "member", "sessions"])
def test_a_change_of_rights_closes_the_sockets_at_once(change: str, pool: None, browse: Browse) -> None:
    client = browse("operator") if change != "member" else browse("", tenant="sales")
    person = User.objects.get()
    User.objects.create_user("other@example.net", "a long password", role="operator")
    root = access.system("test")

    def act() -> None:
        match change:
            case "role":
                people.set_role(root, person.pk, "")
            case "deactivated":
                people.set_active(root, person.pk, False)
            case "member":
                people.remove_member(root, "sales", person.pk)
            case "sessions":
                people.end_sessions(person)

    async def story() -> int:
        async with opened(client) as socket:
            await socket.connect()
            await heard(socket)
            await database_sync_to_async(act)()
            while (message := await socket.receive_output(timeout=5))["type"] != "websocket.close":
                pass
            return int(message["code"])

    assert asyncio.run(story()) == consumer.SIGNED_OUT


def test_viewers_share_one_reading(pool: None, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [browse(), browse("auditor")]
    readings: list[str] = []
    original = hub.cells.cells
    monkeypatch.setattr(hub.cells, "cells", lambda kind, *numbers: (readings.append(kind), original(kind, *numbers))[1])

    async def story() -> None:
        async with opened(clients[0]) as one, opened(clients[1]) as two:
            await one.connect()
            await two.connect()
            first, second = await heard(one), await heard(two)
            assert first["changes"] == second["changes"]
            seen = len(readings)
            await heard(one)
            await heard(two)
            assert len(readings) == seen + 1
            assert len(hub.current().streams) == 1
        for _ in range(40):
            if not hub.current().streams:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("a stream without viewers goes on")

    asyncio.run(story())


def test_polling_answers_the_same_cells(task: Callable[..., int], browse: Browse) -> None:
    task()
    answer = browse().get("/live/overview.json").json()
    assert answer["full"] and answer["changes"]["t.queued"] == "1"
    assert Client().get("/live/overview.json").status_code == 401
    assert browse("auditor").get("/live/nothing.json").status_code == 404
    assert browse("").get("/live/overview.json").status_code == 403
