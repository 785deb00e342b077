"""The hub of one web process: turns the shared snapshots into numbered changes for every subscribed socket.

One task per audience and topic asks for a snapshot once a second, sooner after a hint (debounced, and never more often
than every GAP_S), and only while somebody watches. The changes are made and written as JSON once, then handed to all
viewers. A viewer gets everything first (`full`), later only what changed; each message is numbered, a viewer that finds
a gap asks for everything again. Every second brings a message, be it an empty one: silence means a dead connection.
"""

import asyncio
import logging
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from channels.db import database_sync_to_async

from dispatch.live import cells, snapshots, topics
from dispatch.live.cells import Cells
from dispatch.live.topics import Topic
from dispatch.services.messages import Caller

logger = logging.getLogger(__name__)

TICK_S = 1.0  #: seconds between snapshots
DEBOUNCE_S = 0.25  #: a burst of hints counts as one
GAP_S = 0.7  #: between two snapshots, however many hints come
SHARED_S = 0.5  #: on a tick, numbers another stream has just read will do


class Viewer(Protocol):
    """A socket that wants the messages of one stream."""

    async def deliver(self, message: str) -> None:
        """Send one JSON text."""


@dataclass(slots=True)
class Stream:
    """One topic for one audience."""

    caller: Caller
    topic: Topic
    viewers: set[Viewer] = field(default_factory=set)
    seq: int = 0
    cells: Cells = field(default_factory=dict)
    at: int = 0
    task: "asyncio.Task[None] | None" = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Streams of one event loop."""

    def __init__(self) -> None:
        self.streams: dict[Hashable, Stream] = {}

    async def join(self, viewer: Viewer, caller: Caller, topic: Topic) -> Stream:
        """Add a viewer; it gets everything at once. Raises what the service refuses with."""
        key = (snapshots.audience(caller, None), topic)
        stream = self.streams.get(key)
        if stream is None:
            stream = Stream(caller, topic)
            await refresh(stream)
            stream = self.streams.setdefault(key, stream)
        stream.viewers.add(viewer)
        if stream.task is None:
            stream.task = asyncio.create_task(self._run(key, stream))
        await viewer.deliver(whole(stream))
        return stream

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer everywhere; a stream without viewers ends by itself."""
        for stream in self.streams.values():
            stream.viewers.discard(viewer)

    def hint(self) -> None:
        """Something changed: the next snapshot comes early."""
        for stream in self.streams.values():
            stream.wake.set()

    async def _run(self, key: Hashable, stream: Stream) -> None:
        while stream.viewers:
            hinted = await _pause(stream)
            try:
                changed = await refresh(stream, DEBOUNCE_S / 2 if hinted else SHARED_S)
            except Exception:  # one failed look never ends the stream; viewers see their numbers grow stale
                logger.exception("The live numbers could not be read", extra={"action": "live_failed"})
                continue
            stream.seq += 1
            message = written(stream, changed, full=False)
            for viewer in list(stream.viewers):
                try:
                    await viewer.deliver(message)
                except Exception:  # a viewer on its way out
                    stream.viewers.discard(viewer)
        stream.task = None
        if not stream.viewers:
            self.streams.pop(key, None)


async def _pause(stream: Stream) -> bool:
    """Wait a second, or after the first hint (then True) as long as a burst and the gap take."""
    started = time.monotonic()
    try:
        await asyncio.wait_for(stream.wake.wait(), TICK_S)
    except TimeoutError:
        return False
    await asyncio.sleep(max(DEBOUNCE_S, GAP_S - (time.monotonic() - started)))
    stream.wake.clear()
    return True


@database_sync_to_async
def _read(caller: Caller, topic: Topic, fresh_s: float) -> Cells:
    return topics.read(caller, topic, fresh_s)


async def refresh(stream: Stream, fresh_s: float = SHARED_S) -> Cells:
    """Read the numbers anew unless they are younger than `fresh_s`; what changed."""
    fresh = await _read(stream.caller, stream.topic, fresh_s)
    changed = cells.changes(stream.cells, fresh)
    stream.cells, stream.at = fresh, int(fresh["at"] or 0)
    return changed


def whole(stream: Stream) -> str:
    """All cells of a stream, for a new viewer or after a gap."""
    return written(stream, stream.cells, full=True)


def written(stream: Stream, changed: Mapping[str, Any], *, full: bool) -> str:
    """One message: number, topic, time of the numbers, time now, cells."""
    message = {"seq": stream.seq, "topic": stream.topic.name, "at": stream.at, "now": now_ms(), "changes": changed}
    return orjson.dumps(message | ({"full": True} if full else {})).decode()


def now_ms() -> int:
    """This process's clock, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def current() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    for old in [known for known in _hubs if known.is_closed()]:
        del _hubs[old]
    return _hubs.setdefault(loop, Hub())
