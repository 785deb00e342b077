"""The numbers behind the live page, the statistics and the alerts: one reading, one definition of queue age.

Queue age counts startable waiting only. A lane that its own tenant, user, tool or class stops (limit, cooldown, pause,
spent budget) or whose pool is paused counts as limited; when the stop ends its age starts anew. The end of a stop is
what this process saw last (`_stopped`): rows do not say when a limit had room again.
Cost: lanes + leases + attempts that ended inside the window; never the backlog.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dispatch.core import fluid
from dispatch.core.cost import SCALE
from dispatch.core.quota import Quotas
from dispatch.core.types import MICRO, Lane, Snapshot
from dispatch.errors import NotFound
from dispatch.services import access, sessions
from dispatch.services.messages import Caller
from dispatch.store import db, snapshot

DEFAULT_POOL = "default"
FORGET_S = 3600.0

Row = Mapping[str, Any]


@dataclass(slots=True)
class Waiting:
    """Counts and ages (seconds, None: nothing waits) of a set of lanes."""

    queued: int = 0
    scheduled: int = 0
    held: int = 0
    dead: int = 0
    running: int = 0
    limited: int = 0
    oldest_age_s: float | None = None
    limited_oldest_age_s: float | None = None

    def add(self, lane: Row) -> None:
        """Count one lane of `numbers_lanes`."""
        self.queued += lane["queued"]
        self.scheduled += lane["scheduled"]
        self.held += lane["held"]
        self.dead += lane["dead"]
        self.running += lane["running"]
        if lane["stopped"]:
            self.limited += lane["queued"]
            self.limited_oldest_age_s = _older(self.limited_oldest_age_s, lane["age_s"])
        else:
            self.oldest_age_s = _older(self.oldest_age_s, lane["age_s"])

    @property
    def startable(self) -> int:
        """Queued tasks that no limit of their own stops."""
        return self.queued - self.limited


def _older(one: float | None, other: float | None) -> float | None:
    return max((age for age in (one, other) if age is not None), default=None)


@dataclass(slots=True)
class Numbers:
    """One reading of one pool for one audience."""

    pool: Row
    classes: list[dict[str, Any]]
    tenants: list[dict[str, Any]]
    lanes: list[dict[str, Any]]
    visible: list[int] | None
    window_s: float
    service: dict[tuple[int, int], Row] = field(default_factory=dict)  # (class, tenant) → slot_s, started
    workers: list[dict[str, Any]] = field(default_factory=list)
    targets: dict[int, float] = field(default_factory=dict)
    achieved: dict[int, float] = field(default_factory=dict)

    @property
    def scope(self) -> dict[str, Any]:
        """Parameters that narrow a statement to this pool and audience."""
        return {"pool_id": self.pool["id"], "tenants": self.visible}

    def by(self, key: Callable[[Row], Hashable]) -> dict[Any, Waiting]:
        """The lanes' numbers added up by some key."""
        found: dict[Hashable, Waiting] = defaultdict(Waiting)
        for lane in self.lanes:
            found[key(lane)].add(lane)
        return found

    def started(self, class_id: int) -> int:
        """Starts of a class inside the window."""
        return sum(row["started"] for (of, _), row in self.service.items() if of == class_id)

    @property
    def alive(self) -> list[dict[str, Any]]:
        """Workers that count as capacity."""
        return [worker for worker in self.workers if counts(worker)]

    @property
    def slots(self) -> int:
        """Live slots."""
        return sum(worker["slots"] for worker in self.alive)


_lock = threading.Lock()
_stopped: dict[int, float] = {}  # lane → when it was last seen stopped, in database seconds


def read(caller: Caller, pool: str | None, window_s: float) -> Numbers:
    """Read a pool's numbers (scope `read`); NotFound for an unknown pool or another one than the key's."""
    numbers = waiting(caller, pool, window_s)
    for row in db.rows("numbers_service", {**numbers.scope, "window_s": window_s}):
        numbers.service[row["class_id"], row["tenant_id"]] = row
    numbers.workers = live_workers(numbers.pool)
    divide(numbers)
    return numbers


def waiting(caller: Caller, pool: str | None, window_s: float = 0) -> Numbers:
    """The part of the numbers that tells what waits and runs: no service, workers or shares. Scope `read`."""
    access.require(caller, "read")
    found = find_pool(caller, pool)
    visible = access.visible_tenants(caller)
    scope = {"pool_id": found["id"], "tenants": visible}
    numbers = Numbers(
        pool=found,
        classes=db.rows("numbers_classes", {"pool_id": found["id"]}),
        tenants=db.rows("numbers_tenants", {"tenants": visible}),
        lanes=db.rows("numbers_lanes", scope),
        visible=visible,
        window_s=window_s,
    )
    _mark_stopped(numbers, snapshot.limits(found["id"]))
    return numbers


def find_pool(caller: Caller, slug: str | None) -> dict[str, Any]:
    """The pool with its leader and the time (`at`); NotFound for an unknown one or another one than the key's."""
    if slug is None and caller.pool_id is not None:
        slug = db.rows("pool_by_slug", {"slug": None, "pool_id": caller.pool_id})[0]["slug"]
    found = db.one("numbers_pool", {"slug": slug or DEFAULT_POOL}) if "\0" not in (slug or "") else None
    if found is None:
        raise NotFound("There is no such pool.")
    access.see_pool(caller, found["id"])
    return found


def live_workers(pool: Row) -> list[dict[str, Any]]:
    """Workers with an open session that were heard of lately."""
    times = db.rows("pool_by_slug", {"slug": pool["slug"], "pool_id": None})[0]
    return db.rows(
        "numbers_workers",
        {
            "pool_id": pool["id"],
            "lease_ttl_s": times["lease_ttl_s"],
            "heartbeat_every_s": sessions.longest_every_s(pool["id"], times),
            "limit": 1000,
        },
    )


def counts(worker: Row) -> bool:
    """Whether a worker counts as capacity."""
    return bool(worker["alive"]) and not (worker["draining"] or worker["paused"] or worker["quarantined"])


def live_slots(pool: Row) -> int:
    """The slots of the workers that count as capacity now."""
    return sum(worker["slots"] for worker in live_workers(pool) if counts(worker))


def _mark_stopped(numbers: Numbers, limits: Snapshot) -> None:
    """Say of each lane whether limits of its own stop it, and let the age begin where a stop ended."""
    quotas, now = Quotas(limits), numbers.pool["at"].timestamp()
    with _lock:
        for lane in numbers.lanes:
            lane["stopped"] = limits.policy.paused or not quotas.within_limits(_core(lane))
            lane["stop"] = _stop(limits, quotas, _core(lane), numbers.visible) if lane["stopped"] else ""
            if lane["stopped"]:
                _stopped[lane["id"]] = now
            elif lane["age_s"] is not None and (ended := _stopped.get(lane["id"])) is not None:
                lane["age_s"] = max(0.0, min(lane["age_s"], now - ended))
            if lane["age_s"] is not None:
                lane["age_s"] = max(0.0, lane["age_s"])
        for lane_id in [lane_id for lane_id, at in _stopped.items() if at < now - FORGET_S]:
            del _stopped[lane_id]


def _stop(limits: Snapshot, quotas: Quotas, lane: Lane, visible: list[int] | None) -> str:
    """What stops a lane, in a few words: the first full limit. Who sees one tenant is not told what others use."""
    if limits.policy.paused:
        return "pool paused"
    counts = [
        ("class", quotas.of_class(lane.work_class)),
        ("tenant", quotas.of_tenant(lane.tenant)),
        ("user", quotas.of_user(lane.tenant, lane.user)),
        *(("tool", quotas.of_tool(tool)) for tool in lane.tools),
    ]
    for kind, count in counts:
        if count.cap < 0:
            return f"{kind} stopped"  # paused, cooling down, or its budget is spent
        if count.run >= count.cap:
            shared = visible is not None and kind in ("class", "tool")
            return f"{kind} limit" if shared else f"{kind} limit {count.run} of {count.cap}"
    return "a limit"


def _core(lane: Row) -> Lane:
    return Lane(
        id=lane["id"],
        work_class=lane["class_id"],
        tenant=lane["tenant_id"],
        user=lane["user_id"],
        tools=tuple(lane["tools"]),
    )


def divide(numbers: Numbers) -> None:
    """Targets from what could run now, achieved shares from slot-seconds inside the window; both parts of 1."""
    waiting = numbers.by(lambda lane: lane["class_id"])
    budget = numbers.pool["budget"]
    running = sum(count.running for count in waiting.values())
    capacity = max(running, numbers.slots if budget is None else min(budget, numbers.slots)) or 1
    wants = {
        row["id"]: fluid.Want(
            demand=waiting[row["id"]].running + (0 if row["paused"] else waiting[row["id"]].startable),
            weight=Fraction(str(row["weight"])),
            min=row["min"],
            max=row["max"],
            level=row["level"],
        )
        for row in numbers.classes
        if row["id"] in waiting
    }
    numbers.targets = _parts(fluid.fill(capacity, wants))
    served: dict[int, float] = defaultdict(float)
    for (class_id, _), row in numbers.service.items():
        served[class_id] += row["slot_s"]
    numbers.achieved = _parts(served)


def _parts(amounts: Mapping[int, Any]) -> dict[int, float]:
    total = sum(amounts.values())
    return {key: float(amount / total) for key, amount in amounts.items()} if total else {}


def deficits(pool_id: int, classes: Iterable[Row]) -> dict[int, float]:
    """What each class is owed in cost units, as the scheduler keeps it: weight × (clock of the root − virtual time)."""
    nodes = {row["node"]: row["data"] for row in db.rows("numbers_accounts", {"pool_id": pool_id})}
    root = nodes.get("root")
    found: dict[int, float] = {}
    for row in classes:
        account = nodes.get(f"c{row['id']}")
        if root and account and account.get("a"):
            weight = round(row["weight"] * MICRO)
            clock = root["z"] if weight == 0 else root["v"]
            found[row["id"]] = (clock - account["vt"]) * (weight or MICRO) // SCALE / MICRO
    return found
