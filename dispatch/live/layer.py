"""A channel layer for any number of web processes on LISTEN/NOTIFY; no broker, no table.

Messages go to this process's own members directly and to the other processes as one notification (events.LAYER).
Those are hints like any other: they may be lost while a connection is away, and they carry at most LARGEST bytes;
a larger message arrives elsewhere as `{"type": "live.resync"}`, upon which consumers send everything again.
Options: those of channels' InMemoryChannelLayer.
"""

import json
import uuid
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import InMemoryChannelLayer

from dispatch import events
from dispatch.store import db

LARGEST = 7800  #: bytes of a payload; PostgreSQL takes less than 8000
RESYNC = {"type": "live.resync"}


class NotifyLayer(InMemoryChannelLayer):
    """InMemoryChannelLayer plus a bridge to the other processes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.process = uuid.uuid4().hex[:12]

    async def new_channel(self, prefix: str = "specific") -> str:
        """A channel name that says which process it lives in."""
        return f"{prefix.rstrip('.')}.{self.process}!{uuid.uuid4().hex[:12]}"

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        """To a channel of this process, or by notification to the process named in it."""
        if "!" in channel and f".{self.process}!" not in channel:
            await self._notify({"channel": channel}, message)
        else:
            await super().send(channel, message)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        """To the members here and, by notification, to those elsewhere."""
        await super().group_send(group, message)
        await self._notify({"group": group}, message)

    async def _notify(self, address: dict[str, str], message: dict[str, Any]) -> None:
        payload = pack(self.process, address, message)
        await database_sync_to_async(db.hint)(events.LAYER, payload)

    async def heard(self, payload: str) -> None:
        """A notification on events.LAYER: deliver it here unless this process sent it."""
        try:
            parcel = json.loads(payload)
            origin, message = parcel["from"], parcel["message"]
        except (ValueError, KeyError, TypeError):
            return
        if origin == self.process:
            return
        if group := parcel.get("group"):
            await super().group_send(group, message)
        elif f".{self.process}!" in str(parcel.get("channel")):
            await super().send(parcel["channel"], message)


def pack(origin: str, address: dict[str, str], message: dict[str, Any]) -> str:
    """The payload of a notification; a message that does not fit, or is no JSON, becomes a resync."""
    try:
        payload = json.dumps({"from": origin, **address, "message": message})
    except (TypeError, ValueError):
        payload = ""
    if not payload or len(payload) > LARGEST:
        payload = json.dumps({"from": origin, **address, "message": RESYNC})
    return payload
