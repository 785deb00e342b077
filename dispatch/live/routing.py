"""Websocket addresses; `websocket` is the finished application for controlplane/asgi.py."""

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import path

from dispatch.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi())]
websocket = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
