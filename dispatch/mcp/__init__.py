"""MCP at `/mcp`: the API's verbs as tools for language models (official SDK, streamable HTTP, stateless).

Every tool is a call of the JSON API by the same key, made inside this process: one set of rules for both. Tools whose
scope a key lacks are not listed. The SDK is loaded with the first call, so web processes without MCP do not carry it.
"""

from typing import Any

from dispatch.mcp.door import App, Door

__all__ = ["application"]


def application(app: App) -> Any:
    """The ASGI application with `/mcp` in front of it."""
    return Door(app)
