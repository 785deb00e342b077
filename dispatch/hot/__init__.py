"""The hot plane: the agents' verbs as one bare ASGI application in front of Django (ADR 0002)."""

from typing import Any

from django.conf import settings

from dispatch.api import connection, webpulse
from dispatch.hot.asgi import App, HotPlane

__all__ = ["application"]


def application(fallback: Any) -> App:
    """The ASGI application of a web process: the hot plane before `fallback`, or with EVENFLOW_HOT=0 no hot plane.

    Call it once, in controlplane/asgi.py. It starts the process's pulse.
    """
    webpulse.current.start()
    if settings.EVENFLOW_HOT:
        return HotPlane(fallback)
    plain: App = connection.watched(fallback)
    return plain
