"""The tools say what the API says: the same filters, a scope for each, a description that names what is needed."""

import asyncio

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from dispatch.api.schemas_tasks import TaskFilters
from dispatch.mcp.inside import Refusal
from dispatch.mcp.server import TOOLS, make
from dispatch.mcp.tool import SCOPES, TaskFilter


def test_the_filter_is_the_apis() -> None:
    ours = {field.serialization_alias or name for name, field in TaskFilter.model_fields.items()}
    assert ours == {field.alias or name for name, field in TaskFilters.model_fields.items()}


def test_every_tool_has_a_scope_and_a_text() -> None:
    assert {tool.scope for tool in TOOLS} == SCOPES
    assert len({tool.run.__name__ for tool in TOOLS}) == len(TOOLS)
    assert all(len(tool.text) > 15 for tool in TOOLS)
    assert [tool.run.__name__ for tool in TOOLS if tool.destroys] == ["requeue_apply"]


def test_no_tool_ignores_an_argument() -> None:
    server = make(SCOPES)
    for tool in asyncio.run(server.list_tools()):
        assert tool.input_schema["additionalProperties"] is False, tool.name
        with pytest.raises(ToolError, match=r"(?s)nothing\s+Extra inputs are not permitted"):
            asyncio.run(server.call_tool(tool.name, {"nothing": 1}))


def test_a_refusal_begins_with_its_slug() -> None:
    document = b'{"type": "lease-lost", "detail": "It ended."}'
    assert str(Refusal(409, document, b"application/problem+json")) == "lease-lost: It ended."
    assert str(Refusal(502, b"<html>", b"text/html")).startswith("unavailable: ")
