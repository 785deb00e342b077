"""What submitters send (contract: Submitters) and the filters of lists of tasks."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, StringConstraints, Tag

from dispatch.api.fields import Cost, Key, Model, Payload, Seconds, Slug, Text, Time
from dispatch.conf import Limits, limits

LIMITS: Limits = limits()
Word = Annotated[Text, StringConstraints(max_length=500)]


class TaskIn(Model):
    """One task."""

    tenant: Slug
    work_class: Slug = Field(alias="class")
    payload: Payload
    user: Slug | None = None
    pool: Slug | None = None
    type: Slug | None = None
    capabilities: Annotated[list[Slug], Field(max_length=LIMITS.task_capabilities)] | None = None
    tools: Annotated[list[Slug], Field(max_length=LIMITS.task_tools)] | None = None
    cost: Cost | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] | None = None
    key: Key | None = None
    run_at: Time | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    max_runtime_s: Seconds | None = None
    progress_timeout_s: Seconds | None = None
    deadline: Time | None = None


class TasksIn(Model):
    """Many tasks, all or none."""

    tasks: Annotated[list[TaskIn], Field(min_length=1, max_length=LIMITS.batch)]


def _shape(body: Any) -> str:
    if isinstance(body, TasksIn) or (isinstance(body, dict) and "tasks" in body):
        return "<many>"
    return "<one>"


class SubmitIn(
    RootModel[Annotated[Annotated[TaskIn, Tag("<one>")] | Annotated[TasksIn, Tag("<many>")], Discriminator(_shape)]]
):
    """One task, or `{"tasks": […]}`."""


class ReasonIn(Model):
    """A command with an optional reason for the audit."""

    reason: Text | None = None


class Query(BaseModel):
    """Base of query strings: text becomes numbers, unknown names are refused by the routes."""

    model_config = ConfigDict(extra="forbid")


class ListQuery(Query):
    """Paging of every list."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: Annotated[Text, Field(max_length=500)] | None = None


class WaitQuery(Query):
    """How long to wait for a final state."""

    wait_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0


class TaskFilters(Query):
    """What chooses tasks; all filters are met. `state` takes several with commas; the service knows the names.

    Not strict: a query string is text. Bodies say strict themselves, for a base's setting would hold for its siblings.
    """

    state: Word | None = None
    work_class: Word | None = Field(None, alias="class")
    pool: Word | None = None
    tenant: Word | None = None
    user: Word | None = None
    worker: Word | None = None
    capability: Word | None = None
    tool: Word | None = None
    type: Word | None = None
    error: Word | None = None
    min_age_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    key: Word | None = None
    fingerprint: Word | None = None


class TaskQuery(TaskFilters, ListQuery):
    """Filters and order of a list of tasks."""

    order: Word | None = None
