"""`/ws/live?topic=…&pool=…&tenant=…`: the live numbers of one page for one signed-in person.

Refused at the door: foreign origins, people who are not signed in, unknown topics. Rights are looked at again every
RECHECK_S seconds and when the person signs out (group `person.<id>`); a socket that lost them is closed with 4401.
The browser may say `{"type": "resync"}`; everything else it says is ignored.
"""

import asyncio
import json
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.http import HttpRequest

from dispatch import errors
from dispatch.live import hub, listening, topics
from dispatch.models import User
from dispatch.services import access
from dispatch.services.messages import Caller

RECHECK_S = 60.0
SIGNED_OUT, FORBIDDEN, UNKNOWN = 4401, 4403, 4404  #: close codes, as the HTTP answers
LONGEST = 1000  #: characters of a message from a browser


def same_origin(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a handshake comes from a page of ours (or of EVENFLOW_ORIGINS); one without Origin does not."""
    found = {name.decode("latin1").lower(): value.decode("latin1") for name, value in headers}
    origin = found.get("origin", "")
    host = urlsplit(origin).netloc
    return bool(host) and (host == found.get("host") or origin in settings.CSRF_TRUSTED_ORIGINS)


@database_sync_to_async
def caller_of(scope: dict[str, Any]) -> Caller | None:
    """The signed-in person's rights, read afresh from session and database; None when signed out."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(scope["session"].session_key)
    user = get_user(request)
    return access.for_user(user) if isinstance(user, User) and user.is_active else None


class Nowhere(AsyncWebsocketConsumer):
    """Every other address: refused (403), where Channels would raise."""

    async def connect(self) -> None:
        """Close the handshake."""
        await self.close(UNKNOWN)


class LiveConsumer(AsyncWebsocketConsumer):
    """One socket, one topic."""

    stream: hub.Stream | None = None
    watch: "asyncio.Task[None] | None" = None
    group: str = ""

    async def connect(self) -> None:
        """Check origin, person and topic, then join the stream."""
        if not same_origin(self.scope["headers"]):
            await self.close(FORBIDDEN)
            return
        await self.accept()
        asked = {name: values[0] for name, values in parse_qs(self.scope["query_string"].decode("latin1")).items()}
        topic = topics.parse(asked.get("topic", "overview"), asked.get("pool"), asked.get("tenant"))
        caller = await caller_of(self.scope)
        if caller is None:
            await self.close(SIGNED_OUT)
        elif topic is None:
            await self.close(UNKNOWN)
        else:
            await self._join(caller, topic)

    async def _join(self, caller: Caller, topic: topics.Topic) -> None:
        listening.ensure()
        try:
            self.stream = await hub.current().join(self, caller, topic)
        except errors.EvenflowError:
            await self.close(FORBIDDEN)
            return
        self.group = f"person.{caller.id}"
        if self.channel_layer is not None:
            await self.channel_layer.group_add(self.group, self.channel_name)
        self.watch = asyncio.create_task(self._watch(caller))

    async def _watch(self, caller: Caller) -> None:
        """Close when the person's rights changed or the session ended."""
        while True:
            await asyncio.sleep(RECHECK_S)
            try:
                changed = await caller_of(self.scope) != caller
            except DatabaseError:  # the database is away: the next look decides
                continue
            if changed:
                await self.close(SIGNED_OUT)
                return

    async def deliver(self, message: str) -> None:
        """Send one message of the stream."""
        await self.send(text_data=message)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer a resync with everything."""
        if not text_data or len(text_data) > LONGEST or self.stream is None:
            return
        try:
            message = json.loads(text_data)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict) and message.get("type") == "resync":
            await self.deliver(hub.whole(self.stream))

    async def person_left(self, event: dict[str, Any]) -> None:
        """The person signed out, here or in another process."""
        if event.get("session") in (None, self.scope["session"].session_key):
            await self.close(SIGNED_OUT)

    async def live_resync(self, event: dict[str, Any]) -> None:
        """A message too large for the layer stood here: send everything."""
        if self.stream is not None:
            await self.deliver(hub.whole(self.stream))

    async def disconnect(self, code: int) -> None:
        """Leave the stream."""
        hub.current().leave(self)
        if self.watch:
            self.watch.cancel()
        if self.group and self.channel_layer is not None:
            await self.channel_layer.group_discard(self.group, self.channel_name)
