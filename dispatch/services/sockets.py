"""Tell the open sockets of a person, in all web processes, that the person's rights or session are over.

Each socket is closed (4401) at once; a browser that is still signed in comes back by itself with the rights of now.
Sockets also look by themselves once a minute, so a message that is lost only delays this.
"""

import functools

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction


def close(person_id: int, session: str | None = None) -> None:
    """Close the person's sockets (of one session, else all) as soon as the transaction is committed."""
    transaction.on_commit(functools.partial(_send, person_id, session))


def _send(person_id: int, session: str | None) -> None:
    layer = get_channel_layer()
    if layer is not None:
        async_to_sync(layer.group_send)(f"person.{person_id}", {"type": "person.left", "session": session})
