"""The channel layer between web processes."""

import asyncio
import json
from typing import Any

import pytest

from dispatch import events
from dispatch.live import layer
from dispatch.live.layer import NotifyLayer


async def received(of: NotifyLayer, channel: str) -> dict[str, Any]:
    message: dict[str, Any] = await asyncio.wait_for(of.receive(channel), 2)
    return message


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was notified."""
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(layer.db, "hint", lambda channel, payload: sent.append((channel, payload)))
    return sent


def test_a_group_reaches_members_here_and_elsewhere_once(wire: list[tuple[str, str]]) -> None:
    async def story() -> None:
        here, there = NotifyLayer(), NotifyLayer()
        ours, theirs = await here.new_channel(), await there.new_channel()
        await here.group_add("person.1", ours)
        await there.group_add("person.1", theirs)
        await here.group_send("person.1", {"type": "x", "n": 1})
        assert await received(here, ours) == {"type": "x", "n": 1}
        [(channel, payload)] = wire
        assert channel == events.LAYER
        await here.heard(payload)  # the sender hears its own notification too
        await there.heard(payload)
        assert await received(there, theirs) == {"type": "x", "n": 1}
        assert here.channels == there.channels == {}

    asyncio.run(story())


def test_a_message_to_one_channel_goes_to_its_process(wire: list[tuple[str, str]]) -> None:
    async def story() -> None:
        here, there, third = NotifyLayer(), NotifyLayer(), NotifyLayer()
        theirs = await there.new_channel()
        await here.send(theirs, {"type": "x"})
        for one in (here, there, third):
            await one.heard(wire[0][1])
        assert await received(there, theirs) == {"type": "x"}
        assert third.channels == here.channels == {}

    asyncio.run(story())


@pytest.mark.parametrize("text", ["x" * 9000, "ü" * 2000, "\N{PILE OF POO}" * 1000])
def test_a_message_too_large_for_a_notification_becomes_a_resync(text: str) -> None:
    payload = layer.pack("p", {"group": "g"}, {"type": "x", "text": text})
    assert len(payload.encode()) < 8000
    assert json.loads(payload)["message"] == layer.RESYNC


def test_what_is_no_json_becomes_a_resync_too() -> None:
    assert json.loads(layer.pack("p", {"group": "g"}, {"type": "x", "o": object()}))["message"] == layer.RESYNC


@pytest.mark.parametrize("payload", ["", "no json", "[]", '{"from": "x"}', "7"])
def test_foreign_notifications_are_ignored(payload: str) -> None:
    asyncio.run(NotifyLayer().heard(payload))
