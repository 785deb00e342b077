"""What the operators' commands answer."""

from typing import Any, Literal

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


BlockerCode = Literal[
    "no_capable_worker",
    "no_free_slot",
    "pool_budget",
    "class_max",
    "tenant_max",
    "user_max",
    "tool_max",
    "tool_cooldown",
    "budget_spent",
    "paused",
    "scheduled",
    "backing_off",
    "held",
    "behind_in_lane",
    "lower_share",
    "reserved_for_others",
]


class Blocker(BaseModel):
    """One reason: `subject` of `kind` has `value` of `limit`, since when, and a sentence for people."""

    code: BlockerCode
    kind: str
    subject: str | int | None
    value: str | int | None
    limit: str | int | None
    since: Time | None
    text: str


class Position(BaseModel):
    """The task's place in its lane, from 1, and how many tasks of the lane come after it (counted to 10,000)."""

    lane: int
    ahead_of: int


class Why(BaseModel):
    """Everything that keeps a task from starting; `startable`: nothing does. `deficit`: what its class is owed."""

    task_id: Id
    state: StateName
    startable: bool
    blockers: list[Blocker]
    position: Position | None
    deficit: float | None
    estimate_s: float | None
    holders: list[dict[str, Any]]
