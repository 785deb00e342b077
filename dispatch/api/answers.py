"""What the API answers: schemas for the OpenAPI document, held against real answers by the contract tests.

Adding fields is free (objects are open); the named ones are binding.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dispatch.api.fields import Id, Slug, Time

StateName = Literal["scheduled", "queued", "leased", "held", "succeeded", "dead", "cancelled"]
Directive = Literal["continue", "yield", "cancel"]
WorkerDirective = Literal["continue", "drain"]
IdleReason = Literal["no_work", "no_eligible_work", "no_free_slot", "limits", "paused", "draining"]


class FieldError(BaseModel):
    """One finding."""

    field: str
    message: str


class Problem(BaseModel):
    """A refusal: `type` is a stable slug."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


class Submitted(BaseModel):
    """One submitted task."""

    id: Id
    state: StateName
    created: bool
    lane: Id
    warnings: list[FieldError] = []


class SubmittedMany(BaseModel):
    """Many submitted tasks, in order."""

    tasks: list[Submitted]


class LeaseView(BaseModel):
    """The live lease of a task."""

    worker: str
    expires_at: Time
    progress: Any = None


class HistoryEntry(BaseModel):
    """One event in a task's life."""

    at: Time
    event: str


class Task(BaseModel):
    """One task; `payload` and `result` are null for those who may not see them."""

    id: Id
    state: StateName
    pool: Slug
    work_class: Slug = Field(alias="class")
    tenant: Slug
    user: str
    type: str | None = None
    payload: Any = None
    attempts: int
    losses: int
    lane: Id
    queued_at: Time | None = None
    queue_age_s: float | None = None
    lease: LeaseView | None = None
    result: Any = None
    error: Any = None
    reason: str | None = None
    history: list[HistoryEntry] = []


class TaskItem(BaseModel):
    """A task in a list: payload, result and history are in the single one only."""

    id: Id
    state: StateName


class Items(BaseModel):
    """A page of objects; `next_cursor` null ends the list."""

    items: list[dict[str, Any]]
    next_cursor: str | None


class TaskPage(BaseModel):
    """A page of tasks."""

    items: list[TaskItem]
    next_cursor: str | None


class Cancelled(BaseModel):
    """The state after a cancel; a leased task ends when its agent hears of it."""

    state: StateName
    cancel_requested: bool = False


class StateAnswer(BaseModel):
    """The state after a command."""

    state: StateName


class Registered(BaseModel):
    """The new session and the times that govern it."""

    worker_id: Id
    session_id: Id
    lease_ttl_s: float
    heartbeat_every_s: float
    offer_ttl_s: float


class Lease(BaseModel):
    """One leased task as its agent gets it."""

    task_id: Id
    token: Id
    attempt: int
    type: str
    payload: Any
    work_class: Slug = Field(alias="class")
    tenant: Slug
    user: str
    cost: float
    priority: int
    expires_at: Time
    ttl_s: float
    heartbeat_every_s: float
    progress_timeout_s: float | None
    max_runtime_s: float | None
    deadline: Time | None
    checkpoint: Any
    journal: list[Any]


class Claimed(BaseModel):
    """Leases, or why there are none."""

    leases: list[Lease]
    idle_reason: IdleReason | None
    worker_directive: WorkerDirective


class Beaten(BaseModel):
    """What became of one lease at a heartbeat."""

    task_id: Id
    status: Literal["renewed", "lost"]
    expires_at: Time | None
    directive: Directive
    sanitized: bool = False


class HeartbeatAnswer(BaseModel):
    """The answer to a heartbeat."""

    leases: list[Beaten]
    worker_directive: WorkerDirective
    heartbeat_every_s: float


class _WithClaim(BaseModel):
    leases: list[Lease] | None = None
    idle_reason: IdleReason | None = None
    worker_directive: WorkerDirective | None = None
    warnings: list[FieldError] = []


class Ended(_WithClaim):
    """The task's state after its attempt ended; with a `claim` also leases."""

    state: StateName
    sanitized: bool = False


class Kept(BaseModel):
    """A checkpoint was stored; the task goes on."""

    state: StateName
    sanitized: bool = False


class OutcomeAnswer(BaseModel):
    """What became of one outcome of a batch."""

    task_id: Id
    status: Literal["accepted", "lost", "invalid"]
    state: StateName | None
    sanitized: bool = False
    errors: list[FieldError] = []


class CompletionsAnswer(_WithClaim):
    """What became of each outcome, in order; with a `claim` also leases."""

    outcomes: list[OutcomeAnswer]


class Policy(BaseModel):
    """One policy object; all fields of its kind, see the request schema."""

    slug: Slug
    version: Annotated[int, Field(ge=0)]


class PolicyPage(BaseModel):
    """A page of policy objects."""

    items: list[Policy]
    next_cursor: str | None


class Key(BaseModel):
    """An API key; `key` is whole here and only here."""

    id: Id
    key: str | None
    prefix: str
    name: str
    scopes: list[str]
    tenant: Slug | None
    pool: Slug | None
    expires_at: Time | None


class Me(BaseModel):
    """The key that asks; `at` is the server's clock."""

    id: Id
    name: str
    scopes: list[str]
    tenant: Slug | None
    pool: Slug | None
    at: Time


class Stats(BaseModel):
    """Numbers of a pool over a window."""

    classes: list[dict[str, Any]]
    tenants: list[dict[str, Any]]
    workers: dict[str, Any]
    dead: dict[str, Any]
    slots_wanted: list[dict[str, Any]] = []
