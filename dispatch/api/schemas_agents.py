"""What agents send (contract: Agents). One schema per call, the same for ninja and the hot plane."""

from typing import Annotated, Any, Literal

from pydantic import Field

from dispatch.api.fields import (
    Checkpoint,
    Cost,
    Id,
    Key,
    Labels,
    Model,
    PositiveWeight,
    Result,
    SecondsOrZero,
    Slug,
    Text,
)
from dispatch.conf import Limits, limits

LIMITS: Limits = limits()


class WorkerIn(Model):
    """A registration: opens a session."""

    name: Slug
    pool: Slug | None = None
    capabilities: Annotated[list[Slug], Field(max_length=LIMITS.worker_capabilities)]
    slots: Annotated[int, Field(ge=1, le=1000)]
    weight: PositiveWeight | None = None
    version: Annotated[Text, Field(max_length=200)] | None = None
    labels: Labels | None = None


class ClaimIn(Model):
    """A long poll for work."""

    session_id: Id
    max: Annotated[int, Field(ge=1, le=1000)]
    wait_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 20
    claim_id: Key | None = None


class ProgressIn(Model):
    """Progress inside one lease; NUL in a note becomes U+FFFD."""

    step: int | None = None
    fraction: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    note: Annotated[str, Field(max_length=2000)] | None = None
    fingerprint: Annotated[Text, Field(max_length=500)] | None = None
    cost: Cost | None = None


class BeatIn(Model):
    """One lease in a heartbeat."""

    task_id: Id
    token: Id
    progress: ProgressIn | None = None


class HeartbeatIn(Model):
    """Renews any number of a session's leases; an empty list is a sign of life."""

    session_id: Id
    leases: Annotated[list[BeatIn], Field(max_length=LIMITS.batch)]


class ErrorIn(Model):
    """Why an attempt failed; texts are cut to the limit and marked, NUL becomes U+FFFD."""

    message: str
    kind: Literal["transient", "permanent", "tool_limited"] | None = None
    type: str | None = None
    stack: str | None = None


class CompleteIn(Model):
    """The task is done."""

    token: Id
    result: Result = None
    cost: Cost | None = None
    claim: ClaimIn | None = None


class FailIn(Model):
    """The attempt failed."""

    token: Id
    error: ErrorIn
    retry_after_s: SecondsOrZero | None = None
    tool: Slug | None = None
    cost: Cost | None = None
    claim: ClaimIn | None = None


class ReleaseIn(Model):
    """The agent gives the task back, uncounted."""

    token: Id
    reason: str | None = None
    checkpoint: Checkpoint = None
    claim: ClaimIn | None = None


class CheckpointIn(Model):
    """State that the next attempt gets; `append` adds to the journal instead of replacing it."""

    token: Id
    checkpoint: Checkpoint
    append: bool = False


class CompletionsIn(Model):
    """Many outcomes in one call; each entry stands for itself, one that cannot be used is `invalid`."""

    outcomes: Annotated[list[dict[str, Any]], Field(max_length=LIMITS.batch)]
    claim: ClaimIn | None = None
