"""What all tools share: how they are declared, and how they call the API and tell its refusals."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from dispatch.mcp.door import API
from dispatch.mcp.inside import Api, Refusal

SCOPES = frozenset({"work", "submit", "read", "operate"})

Ctx = Context[Any, Any]
TaskId = Annotated[int, Field(description="The task's id.", ge=1, lt=2**63)]
Token = Annotated[int, Field(description="The fencing token of your lease, from claim_task.", ge=1, lt=2**63)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Limit = Annotated[int, Field(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, Field(description="next_cursor of the page before.")]


class Answer(BaseModel):
    """Base of all answers: named fields are promised, the API may add others."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class TaskFilter(BaseModel):
    """Which tasks; all that are given must be met."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    state: str | None = Field(None, description="scheduled, queued, leased, held, succeeded, dead or cancelled.")
    work_class: str | None = Field(None, serialization_alias="class")
    pool: str | None = None
    tenant: str | None = None
    user: str | None = None
    worker: str | None = None
    capability: str | None = None
    tool: str | None = None
    type: str | None = None
    error: str | None = Field(None, description="Words in the error message.")
    min_age_s: float | None = Field(None, ge=0)
    key: str | None = None
    fingerprint: str | None = Field(None, description="Of an error, from dead_groups.")

    def given(self) -> dict[str, Any]:
        """The fields that were given, under the API's names."""
        return self.model_dump(by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: the scope that it needs, and what it does to the world."""

    run: Callable[..., Awaitable[Any]]
    scope: str
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False  # the same call again changes nothing more

    @property
    def text(self) -> str:
        """The description that a model reads."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def annotations(self) -> ToolAnnotations:
        """The hints of the standard."""
        return ToolAnnotations(
            read_only_hint=self.reads,
            destructive_hint=self.destroys,
            idempotent_hint=self.reads or self.repeatable,
            open_world_hint=False,
        )


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None: what was left out stays out of the body."""
    return {name: value for name, value in fields.items() if value is not None}


def api(ctx: Ctx) -> Api:
    """The API on behalf of the one who calls this tool."""
    request = ctx.request_context.request
    assert request is not None
    found: Api = request.scope[API]
    return found


async def get(ctx: Ctx, path: str, query: Mapping[str, Any] | None = None) -> Any:
    """A GET; its refusal becomes the tool's error."""
    try:
        return await api(ctx).get(path, query)
    except Refusal as refusal:
        raise ToolError(str(refusal)) from refusal


async def post(ctx: Ctx, path: str, body: Mapping[str, Any]) -> Any:
    """A POST; its refusal becomes the tool's error."""
    try:
        return await api(ctx).post(path, body)
    except Refusal as refusal:
        raise ToolError(str(refusal)) from refusal
