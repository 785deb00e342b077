"""A hundred dashboards cost what one costs: one reading a topic and second, the same text for all."""

import asyncio
from typing import Any

import pytest

from dispatch.live import hub, topics
from dispatch.services import access
from dispatch.services.messages import Caller

pytestmark = pytest.mark.django_db(transaction=True)


class Screen:
    """A viewer that keeps what it got."""

    def __init__(self) -> None:
        self.got: list[str] = []

    async def deliver(self, message: str) -> None:
        self.got.append(message)


def test_a_hundred_dashboards_share_each_reading(pool: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    original = topics.read

    def read(person: Caller, topic: topics.Topic, fresh_s: float = 0) -> Any:
        reads.append(topic.name)
        return original(person, topic, fresh_s)

    monkeypatch.setattr(topics, "read", read)
    people = [Caller(kind="user", id=n, name=f"op{n}", scopes=access.SCOPES) for n in range(100)]
    screens = [Screen() for _ in people]

    async def story() -> None:
        here = hub.Hub()
        kinds = [topics.Topic("overview"), topics.Topic("queues"), topics.Topic("queue", "interactive")]
        for place, (screen, person) in enumerate(zip(screens, people, strict=True)):
            await here.join(screen, person, kinds[place % 3])
        assert len(here.streams) == 3
        before = len(reads)
        for _ in range(50):
            here.hint()  # a storm of changes
        await asyncio.sleep(2.2)
        assert 3 <= len(reads) - before <= 3 * 3, "at most one reading a topic and second, however many hints"
        for screen in screens:
            here.leave(screen)
        for stream in list(here.streams.values()):
            if stream.task:
                stream.task.cancel()

    asyncio.run(story())
    alike = [screen.got[1:] for screen in screens[::3]]
    assert all(len(got) >= 1 for got in alike) and alike.count(alike[0]) == len(alike), "written once for all"
