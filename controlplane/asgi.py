"""The ASGI application: agents' verbs, pages and JSON API, websockets.

HTTP goes to the hot plane, which serves the agents' verbs itself and hands the rest to Django (EVENFLOW_HOT=0: all of
it to Django); websockets go to the live consumers, from permitted origins only; `/mcp` goes to the MCP tools.
"""

import gc
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
os.environ["EVENFLOW_WEB_PROCESS"] = "1"  # settings: share database connections between threads

from django.core.asgi import get_asgi_application

pages = get_asgi_application()  # sets Django up, which what follows needs

from channels.routing import ProtocolTypeRouter  # noqa: E402

from controlplane.envelope import Envelope  # noqa: E402
from dispatch import hot, mcp  # noqa: E402
from dispatch.api import webpulse  # noqa: E402
from dispatch.jobs import lifeline, vigil  # noqa: E402
from dispatch.live.routing import websocket  # noqa: E402

sys.setswitchinterval(0.0005)  # a batch's thread waits so long at most for a busy event loop, at each statement
gc.freeze()  # what is loaded by now stays: the collector need not look at it again and again
lifeline.name_process("ef-web")
webpulse.current.on_tick = vigil.inherited().beat
agents = hot.application(ProtocolTypeRouter({"http": pages, "websocket": websocket}))
application = Envelope(mcp.application(agents))
