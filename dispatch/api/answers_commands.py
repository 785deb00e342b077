"""What the operators' commands answer."""

from typing import Any

from pydantic import BaseModel

from dispatch.api.answers import StateName
from dispatch.api.fields import Id, Slug, Time


class Pause(BaseModel):
    """The scope after a pause or resume; `changed`: how many objects it changed (0: nothing was paused)."""

    scope: str
    slug: str | None
    paused: bool
    until: Time | None
    reason: str
    by: str
    changed: int


class Worker(BaseModel):
    """One worker; `state` is live, stale, draining, paused, quarantined or gone (no open session)."""

    id: Id
    name: str
    pool: Slug
    state: str
    weight: float
    deficit: float
    draining: bool
    paused: bool
    quarantined: bool
    slots: int
    running: int
    capabilities: list[str]
    last_seen_at: Time | None


class WorkerDetail(Worker):
    """One worker with its open sessions and the leases that it holds."""

    open_sessions: list[dict[str, Any]]
    leases: list[dict[str, Any]]


class Revoked(BaseModel):
    """The task's state after its lease was taken back."""

    state: StateName
