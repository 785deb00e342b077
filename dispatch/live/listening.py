"""The notifications a web process hears for its pages: changes wake the hub, layer messages reach their members.

One connection per event loop, opened when the first socket comes, and reopened for ever. After each (re)connect the hub
looks at everything, since what was said meanwhile is lost.
"""

import asyncio

from channels.layers import get_channel_layer

from dispatch import events
from dispatch.live import hub
from dispatch.live.layer import NotifyLayer
from dispatch.store.listen import AsyncListener

CHANGES = (events.LIVE, events.POOL, events.TASK)  #: any of them may move a number of the console

_running: dict[asyncio.AbstractEventLoop, "asyncio.Task[None]"] = {}


def ensure() -> None:
    """Start listening in the running event loop unless it does already."""
    loop = asyncio.get_running_loop()
    for old in [known for known in _running if known.is_closed()]:
        del _running[old]
    task = _running.get(loop)
    if task is None or task.done():
        _running[loop] = loop.create_task(_listen())


def stop() -> None:
    """Stop listening in the running event loop."""
    if task := _running.pop(asyncio.get_running_loop(), None):
        task.cancel()


async def _listen() -> None:
    here, layer = hub.current(), get_channel_layer()
    parcels: set[asyncio.Task[None]] = set()

    def changed(payload: str) -> None:
        here.hint()

    def parcel(payload: str) -> None:
        if isinstance(layer, NotifyLayer):
            task = asyncio.ensure_future(layer.heard(payload))
            parcels.add(task)  # the loop itself keeps only weak references
            task.add_done_callback(parcels.discard)

    callbacks = dict.fromkeys(CHANGES, changed) | {events.LAYER: parcel}
    await AsyncListener(callbacks, connected=here.hint, name="live").run()
