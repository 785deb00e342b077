"""MCP tools over the same services."""
