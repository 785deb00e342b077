"""What operators send to steer work that exists: pauses, workers, leases, waiting tasks."""

from typing import Annotated, Literal

from pydantic import Field

from dispatch.api.fields import Cost, Model, Payload, Seconds, Slug, Text, Time
from dispatch.api.schemas_policy import Reason
from dispatch.api.schemas_tasks import ListQuery, Word
from dispatch.services import keys

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


class TaskChange(Model):
    """A change of a waiting task; what is left out stays. `run_at` null: at once. `held`: set aside, or let go."""

    priority: Annotated[int, Field(ge=-100, le=100)] = Field(default_factory=lambda: 0)
    run_at: Time | None = None
    payload: Payload = None
    cost: Cost | None = None
    deadline: Time | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    max_runtime_s: Seconds | None = None
    progress_timeout_s: Seconds | None = None
    held: bool = Field(default_factory=lambda: False)
    reason: Text = ""


class ChangesQuery(ListQuery):
    """Whose ended tasks."""

    tenant: Word | None = None


class AlertsQuery(ListQuery):
    """Which alerts; `state` is open, firing, acknowledged or resolved."""

    state: Word | None = None
    rule: Word | None = None
    severity: Word | None = None


class AckIn(Model):
    """What is being done about an alert, and until when it keeps quiet (left out: until it is resolved)."""

    note: Reason
    until: Time | None = None


class Matcher(Model):
    """Which alerts: all words that are given have to fit; a rule or subject may end in `*`."""

    rule: Word | None = None
    subject: Word | None = None
    severity: Word | None = None
    pool: Word | None = None
    work_class: Annotated[Word | None, Field(alias="class")] = None
    tenant: Word | None = None


class SilenceIn(Model):
    """Which alerts keep quiet until when, and why; without `starts_at` from now on."""

    matcher: Matcher
    note: Reason
    until: Time
    starts_at: Time | None = None


class RuleChange(Model):
    """What a rule is told, for everything or for one class; a threshold of null goes back to what it would be else."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1)]
    reason: Reason
    work_class: Annotated[Slug | None, Field(alias="class")] = None
    enabled: bool = Field(default_factory=lambda: True)
    thresholds: dict[str, int | None] = Field(default_factory=dict)


class BacktestIn(Model):
    """What to try a rule with, and on how long a past (at most two days)."""

    thresholds: dict[str, int] = Field(default_factory=dict)
    pool: Slug | None = None
    span_s: Seconds = 3600


class RotateIn(Model):
    """How long the old key works beside the new one."""

    overlap_s: Annotated[float, Field(ge=0, le=keys.MAX_OVERLAP_S, allow_inf_nan=False)] = 0
