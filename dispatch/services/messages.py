"""What callers hand to the services and get back: plain values, the same for API, hot plane, pages and jobs.

Units as in the API: durations in seconds, costs in the pool's unit (floats), times as aware datetimes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. Made by services/access.py only. `tenant_id`/`pool_id`: the key is bound to them.

    A person's `scopes` are those of the global role; memberships add more inside a tenant (ask access.may).
    """

    kind: str  # "key", "user" or "system"
    id: int | None
    name: str
    scopes: frozenset[str]
    tenant_id: int | None = None
    pool_id: int | None = None
    memberships: Mapping[int, str] = field(default_factory=dict)  # tenant id → role, people only
    view_payloads: bool = True
    payload_tenants: frozenset[int] = frozenset()  # members with the right to see this tenant's payloads
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task as submitted (contract.md, Submitters), already validated for shape by the API."""

    tenant: str
    work_class: str
    payload: Any
    user: str | None = None
    pool: str | None = None
    type: str = ""
    capabilities: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    cost: float | None = None
    priority: int = 0
    key: str | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    max_runtime_s: float | None = None
    progress_timeout_s: float | None = None
    deadline: datetime | None = None
    content_hash: bytes | None = None  # of the canonical JSON of all fields sent but `key`; only with a key


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCall:
    """One call of submit among others. `batch`: it came as a list, so errors name `tasks[i]`."""

    caller: Caller
    tasks: Sequence[TaskSpec]
    batch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer for one submitted task; `created` is False for a repeated key."""

    id: int
    state: str
    created: bool
    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """A registration (contract.md, Agents)."""

    name: str
    pool: str | None
    capabilities: tuple[str, ...]
    slots: int
    weight: float | None = None
    version: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The new session and the times that govern it."""

    worker_id: int
    session_id: int
    lease_ttl_s: float
    heartbeat_every_s: float
    offer_ttl_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """One claim. `park` asks to leave a demand row until now + wait_s when nothing is there yet.

    `demand_id`: the row that this same claim left in an earlier call; taken away when leases are delivered.
    """

    caller: Caller
    session_id: int
    max: int
    wait_s: float
    claim_id: str | None = None
    park: bool = True
    process_id: int | None = None
    demand_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredLease:
    """One lease as an agent gets it."""

    task_id: int
    token: int
    attempt: int
    type: str
    payload: Any
    work_class: str
    tenant: str
    user: str
    cost: float
    priority: int
    expires_at: datetime
    ttl_s: float
    heartbeat_every_s: float
    progress_timeout_s: float | None
    max_runtime_s: float | None
    deadline: datetime | None
    checkpoint: Any
    journal: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """Leases at once, or none and (when parked) the demand row to take back: `demand_id`."""

    leases: list[DeliveredLease]
    demand_id: int | None = None
    worker_directive: str = "continue"
    idle_reason: str | None = None  # filled by claim.idle_reason() when the wait is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A progress report inside one lease."""

    step: int | None = None
    fraction: float | None = None
    note: str | None = None
    fingerprint: str | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One lease in a heartbeat."""

    task_id: int
    token: int
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """One heartbeat call: any number of leases of one session."""

    caller: Caller
    session_id: int
    beats: tuple[Beat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """What became of one lease: "renewed" with its new expiry and directive, or "lost"."""

    task_id: int
    status: str
    expires_at: datetime | None
    directive: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The answer to one heartbeat call."""

    leases: list[BeatAnswer]
    worker_directive: str
    heartbeat_every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """One end of a lease by its agent: outcome "complete", "fail" or "release"."""

    caller: Caller
    task_id: int
    token: int
    outcome: str
    result: Any = None
    cost: float | None = None
    error: Mapping[str, Any] | None = None  # {"message", "kind", "type", "stack"}
    retry_after_s: float | None = None
    tool: str | None = None
    reason: str = ""
    checkpoint: Any = None
    has_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The task's state after its attempt ended."""

    state: str
    sanitized: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a keyset-paged list."""

    items: list[dict[str, Any]]
    next_cursor: str | None
