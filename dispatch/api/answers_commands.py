"""What the operators' commands answer."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from dispatch.api.answers import Key, StateName
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
    paused_at: Time | None
    paused_until: Time | None
    paused_by: str | None
    pause_reason: str | None
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
    value: str | int | float | None
    limit: str | int | float | None
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


class Edited(BaseModel):
    """A waiting task after an edit."""

    id: Id
    state: StateName
    priority: int
    run_at: Time | None
    deadline: Time | None
    cost: float | None
    max_attempts: int | None
    max_runtime_s: float | None
    progress_timeout_s: float | None


class Change(BaseModel):
    """One task that ended; its result is in the task itself."""

    id: Id
    state: StateName
    key: str | None
    type: str
    tenant: Slug
    work_class: Slug = Field(alias="class")
    pool: Slug
    reason: str | None
    error: Any
    attempts: int
    finished_at: Time


class Changes(BaseModel):
    """Ended tasks in the order of their ends; ask again with `next_cursor`, at once while there are `more`."""

    items: list[Change]
    next_cursor: str
    more: bool


class Alert(BaseModel):
    """One finding."""

    id: Id
    rule: str
    subject: str
    severity: str
    state: Literal["firing", "acknowledged", "resolved"]
    text: str
    evidence: Any
    pool: Slug | None
    work_class: Slug | None = Field(alias="class")
    tenant: Slug | None
    muted: Literal["silenced", "inhibited"] | None
    silence_id: Id | None
    inhibited_by: Id | None
    fired_at: Time
    seen_at: Time
    resolved_at: Time | None
    acked_at: Time | None
    acked_by: str
    acked_until: Time | None
    note: str


class AlertPage(BaseModel):
    """A page of alerts."""

    items: list[Alert]
    next_cursor: str | None


class Threshold(BaseModel):
    """One number of a rule; the name ends in its unit."""

    name: str
    value: int
    default: int
    low: int
    high: int
    text: str


class RuleLine(BaseModel):
    """What is set for one class."""

    work_class: Slug = Field(alias="class")
    enabled: bool
    version: int
    thresholds: dict[str, int]


class Rule(BaseModel):
    """One detector; `replays`: it can be tried on recorded samples."""

    rule: str
    scope: str
    text: str
    replays: bool
    enabled: bool
    version: int
    thresholds: list[Threshold]
    classes: list[RuleLine]


class Rules(BaseModel):
    """All rules."""

    items: list[Rule]
    next_cursor: None


class Incident(BaseModel):
    """Once that a rule would have fired; `ended` null: it still did at the end."""

    subject: str
    severity: str
    began: Time
    ended: Time | None
    text: str


class Backtest(BaseModel):
    """A rule on recorded samples, looked at every `step_s` seconds; incidents newest first, at most 200."""

    rule: str
    pool: Slug
    since: Time
    until: Time
    step_s: int
    looked: int
    count: int
    firing_s: float
    incidents: list[Incident]


class Silence(BaseModel):
    """One silence."""

    id: Id
    matcher: dict[str, str]
    state: Literal["pending", "active", "over"]
    starts_at: Time
    ends_at: Time
    author: str
    note: str
    created_at: Time


class SilencePage(BaseModel):
    """A page of silences."""

    items: list[Silence]
    next_cursor: str | None


class RotatedKey(Key):
    """The new key; the old one (`replaces`) works until `old_expires_at`."""

    replaces: Id
    old_expires_at: Time
