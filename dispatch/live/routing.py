"""Websocket addresses; `websocket` is the finished application for controlplane/asgi.py."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import path, re_path

from dispatch.live.consumer import LiveConsumer, Nowhere

websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi()), re_path("", Nowhere.as_asgi())]
websocket = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
