"""What operators send to steer work that exists: pauses, workers, leases, waiting tasks."""

from typing import Annotated, Literal

from pydantic import Field

from dispatch.api.fields import Model, Slug, Text, Time
from dispatch.api.schemas_policy import Reason

Scope = Literal["all", "pool", "class", "tenant", "tool", "worker"]


class ResumeIn(Model):
    """What to resume; no slug for `all`, `pool` where several pools have a worker of this name."""

    scope: Scope
    slug: Slug | None = None
    pool: Slug | None = None
    reason: Reason


class PauseIn(ResumeIn):
    """What to pause, and until when (left out: until it is resumed)."""

    until: Time | None = None


class WorkerChange(Model):
    """A change of a worker; what is left out stays."""

    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = Field(default_factory=lambda: 1.0)
    draining: bool = Field(default_factory=lambda: False)
    paused: bool = Field(default_factory=lambda: False)
    quarantined: bool = Field(default_factory=lambda: False)
    reason: Text = ""


class RevokeIn(Model):
    """Why the lease is taken back."""

    reason: Reason
