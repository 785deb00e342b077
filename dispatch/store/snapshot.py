"""Reads everything one dispatch cycle may look at into core values (core/types.py).

Cost grows with the lanes that have work, the sessions and the running leases; never with the backlog. Lanes and
capability sets never change, so each process keeps those it has met. Statements: sql/snapshot.sql.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dispatch.core.states import Outcome
from dispatch.core.types import (
    MICRO,
    ClassPolicy,
    Ended,
    Head,
    Lane,
    Load,
    Policy,
    Running,
    Slot,
    Snapshot,
    TenantPolicy,
    ToolPolicy,
    UserPolicy,
)
from dispatch.store import budgets, db

MIN_HEADS = 4  # heads of a lane that are read at least
BY_TIME = "slot-seconds"  # the cost unit in which time itself is the cost; others are reported by agents
DEPTH_AGE_S = 0.25
MAX_RUNNING = 1000  # overruns, and candidates to yield, of one cycle

Row = dict[str, Any]


class LaneKey(NamedTuple):
    """What never changes about a lane."""

    work_class: int
    tenant: int
    user: int
    caps: frozenset[str]
    tools: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A snapshot and what the write needs beside it."""

    snapshot: Snapshot
    policy: str  # name of the pool's scheduling policy
    offer_ttl_s: float
    heads: int  # how many of each lane were read at most
    free: int
    budgets: Sequence[Row] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """A pool's policy as read, with the texts it was parsed from."""

    texts: list[str | None]
    pool: Row
    classes: list[Row]
    policy: Policy

    def of(self, live_slots: int, held: Sequence[Row]) -> Policy:
        """The policy with the promotion slots that so many live slots give, and the cost budgets as they stand."""
        return replace(
            self.policy,
            promotion_slots=_promotion_slots(self.pool, self.classes, live_slots),
            cost_budgets=budgets.policy(held, self.pool["cost_unit"]),
        )


class Depths:
    """How much deep lanes have queued, at most DEPTH_AGE_S old: the exact number is needed of short lanes only, and
    those are read to their end."""

    def __init__(self) -> None:
        self._found: dict[int, int] = {}
        self._until = 0.0

    def of(self, lanes: Sequence[int]) -> Mapping[int, int]:
        """By lane."""
        now = time.monotonic()
        if lanes and (now > self._until or any(lane not in self._found for lane in lanes)):
            self._found = dict.fromkeys(lanes, 0) | dict(db.tuples("snapshot_depths", {"lane_ids": list(lanes)}))
            self._until = now + DEPTH_AGE_S
        return self._found


_lanes: dict[int, LaneKey] = {}
_policies: dict[int, _Policy] = {}
_capsets: dict[int, frozenset[str]] = {}


def read(
    pool_id: int,
    *,
    ended: Sequence[Ended] = (),
    lanes_before: int = 1,
    overruns: bool = False,
    yields: bool = True,
    spends: bool = False,
    depths: "Depths | None" = None,
) -> Reading:
    """Read a pool inside the caller's transaction. `lanes_before`: how many lanes had work last time (it decides how
    many heads of each are read: twice an equal part of the free slots; `more_heads` gets the rest where it is needed).
    `overruns` also lists and locks running tasks that cost more than charged; `yields` those that may have to yield;
    `spends` locks the cost budgets of the tenants with work and settles what `ended` cost. `depths` may hold what was
    read a moment ago."""
    now, read = _read_policy(pool_id)
    pool, classes = read.pool, read.classes
    slots = _slots(pool_id, pool["lease_ttl_s"])
    loads = _loads(pool_id)
    free = sum(slot.free for slot in slots)
    aged = any(row["aging_step_s"] is not None or row["max_wait_s"] is not None for row in classes)
    heads = max(1, min(free, max(MIN_HEADS, 2 * -(-free // max(1, lanes_before)))))
    lanes = _active(pool_id, heads, aged, depths or Depths())
    held = _budgets(pool_id, lanes, ended, spends) if pool["budgets"] else []
    policy = read.of(sum(slot.slots for slot in slots), held)
    running = _overruns(pool_id, pool["cost_unit"]) if overruns else []
    if yields:
        running += _yieldable(pool_id, classes, policy, lanes, loads, {task.id for task in running})
    snapshot = Snapshot(
        now=now,
        policy=policy,
        slots=slots,
        lanes=lanes,
        loads=loads,
        running=tuple(running),
        ended=tuple(ended),
    )
    return Reading(
        snapshot=snapshot,
        policy=pool["policy"],
        offer_ttl_s=pool["offer_ttl_s"],
        heads=heads,
        free=free,
        budgets=held,
    )


def _budgets(pool_id: int, lanes: Iterable[Lane], ended: Sequence[Ended], spends: bool) -> list[Row]:
    """The budgets that this cycle may have to spend from; all of them where nothing is going to be spent."""
    return budgets.take(pool_id, {lane.tenant for lane in lanes}, ended) if spends else budgets.state()


def more_heads(view: Snapshot, lane_ids: Iterable[int], heads: int) -> Snapshot:
    """The same snapshot with up to `heads` heads of these lanes."""
    found: dict[int, list[Head]] = {}
    params = {"lane_ids": sorted(lane_ids), "heads": heads}
    for lane, id_, enqueued_at, est, type_, avoid, again in db.tuples("snapshot_more_heads", params):
        head = Head(id=id_, enqueued_at=enqueued_at, est=est, type=type_, avoid=avoid, again=again)
        found.setdefault(lane, []).append(head)
    lanes = tuple(_longer(lane, found[lane.id], heads) if lane.id in found else lane for lane in view.lanes)
    return replace(view, lanes=lanes)


def _longer(lane: Lane, heads: Sequence[Head], asked: int) -> Lane:
    """The lane with more heads; one that was read to its end is known exactly."""
    return replace(lane, heads=tuple(heads), queued=max(lane.queued, asked) if len(heads) == asked else len(heads))


def take_ended(pool_id: int, limit: int) -> list[Ended]:
    """Consume the settlements of attempts that ended since the last cycle (at most `limit`)."""
    rows = db.rows("take_settlements", {"pool_id": pool_id, "limit": limit})
    keys = lane_keys(row["lane_id"] for row in rows)
    return [
        Ended(
            work_class=keys[row["lane_id"]].work_class,
            tenant=keys[row["lane_id"]].tenant,
            user=keys[row["lane_id"]].user,
            worker=row["worker_id"],
            type=row["task_type"],
            charged=row["charged"],
            actual=row["actual"],
            hint=row["hint"],
            completed=row["outcome"] == Outcome.SUCCEEDED,
        )
        for row in rows
    ]


def lane_keys(lane_ids: Iterable[int]) -> Mapping[int, LaneKey]:
    """The keys of lanes, read once per process."""
    missing = sorted({lane_id for lane_id in lane_ids if lane_id not in _lanes})
    for id_, work_class, tenant, user, names, tools in (
        db.tuples("snapshot_lanes", {"lane_ids": missing}) if missing else []
    ):
        _lanes[id_] = LaneKey(work_class, tenant, user, frozenset(names), tuple(tools))
    return _lanes


def _caps(capset_ids: Iterable[int]) -> Mapping[int, frozenset[str]]:
    missing = sorted({id_ for id_ in capset_ids if id_ not in _capsets})
    for id_, names in db.tuples("snapshot_capsets", {"capset_ids": missing}) if missing else []:
        _capsets[id_] = frozenset(names)
    return _capsets


def _micro(value: float | None) -> int | None:
    return None if value is None else round(value * MICRO)


def _read_policy(pool_id: int) -> tuple[int, _Policy]:
    """The clock in micro-seconds, and the policy: the one of the last cycle while its texts are the same."""
    now, *texts = db.tuples("snapshot_policy", {"pool_id": pool_id})[0]
    known = _policies.get(pool_id)
    if known is None or known.texts != texts:
        known = _policies[pool_id] = _parse_policy(texts)
    return now, known


def _parse_policy(texts: list[str | None]) -> _Policy:
    pool, classes, tenants, users, tools = (json.loads(text) if text else [] for text in texts)
    special, parts = _users(users)
    policy = Policy(
        budget=pool["budget"],
        user_max=pool["user_max"],
        max_task_cost=_micro(pool["max_task_cost"]),
        debt_halflife=_micro(pool["debt_halflife_s"]),
        reclaim_min_runtime=_micro(pool["reclaim_min_runtime_s"]),
        reclaim_dead_zone=pool["reclaim_dead_zone"],
        reclaim_per_round=pool["reclaim_per_round"],
        paused=pool["paused"],
        classes={row["id"]: _class(row) for row in classes},
        tenants={
            row["id"]: TenantPolicy(
                weight=round(row["weight"] * MICRO),
                nominal=row["nominal"],
                max=row["max"],
                borrow=row["borrow"],
                user_max=row["user_max"],
                class_max=parts.get(row["id"], {}),
                paused=row["paused"],
            )
            for row in tenants
        },
        users=special,
        tools={
            row["id"]: ToolPolicy(max=row["max"], cooldown_until=row["cooldown_until"], paused=row["paused"])
            for row in tools
        },
    )
    return _Policy(texts=texts, pool=pool, classes=classes, policy=policy)


def _users(rows: Sequence[Row]) -> tuple[dict[tuple[int, int], UserPolicy], dict[int, dict[int, int]]]:
    """What differs from the default inside tenants: users, and maxima in classes by tenant."""
    users: dict[tuple[int, int], UserPolicy] = {}
    parts: dict[int, dict[int, int]] = {}
    for row in rows:
        if row["class_id"] is None:
            users[row["tenant_id"], row["user_id"]] = UserPolicy(weight=round(row["weight"] * MICRO), max=row["max"])
        else:
            parts.setdefault(row["tenant_id"], {})[row["class_id"]] = row["max"]
    return users, parts


def _class(row: Row) -> ClassPolicy:
    return ClassPolicy(
        weight=round(row["weight"] * MICRO),
        min=row["min"],
        max=row["max"],
        lend=row["lend"],
        level=row["level"],
        aging_step=_micro(row["aging_step_s"]),
        max_wait=_micro(row["max_wait_s"]),
        default_cost=_micro(row["default_cost"]),
        preempt=row["preempt"],
        paused=row["paused"],
    )


def _promotion_slots(pool: Row, classes: Sequence[Row], live_slots: int) -> int:
    """The pool's setting, else 5 % of the budget or live slots, at least 1; none where no class promotes (they would
    only scale the guarantees down)."""
    if pool["promotion_slots"] is not None:
        return int(pool["promotion_slots"])
    if all(row["max_wait_s"] is None for row in classes):
        return 0
    slots = live_slots if pool["budget"] is None else min(pool["budget"], live_slots)
    return max(1, slots // 20)


def _slots(pool_id: int, lease_ttl_s: float) -> tuple[Slot, ...]:
    rows = db.rows("snapshot_sessions", {"pool_id": pool_id, "lease_ttl_s": lease_ttl_s})
    caps = _caps(row["capset_id"] for row in rows)
    return tuple(
        Slot(
            id=row["id"],
            worker=row["worker_id"],
            slots=row["slots"],
            free=row["free"],
            caps=caps[row["capset_id"]],
            weight=round(row["weight"] * MICRO),
            deficit=row["deficit"],
            load=row["load"],
            tenant=row["tenant_id"],
        )
        for row in rows
    )


def _loads(pool_id: int) -> tuple[Load, ...]:
    rows = db.tuples("snapshot_loads", {"pool_id": pool_id})
    keys = lane_keys(row[0] for row in rows)
    return tuple(
        Load(
            work_class=keys[lane].work_class,
            tenant=keys[lane].tenant,
            user=keys[lane].user,
            caps=keys[lane].caps,
            tools=keys[lane].tools,
            running=running,
            promoted=promoted,
            yielding=yielding,
        )
        for lane, running, promoted, yielding in rows
    )


def _active(pool_id: int, heads: int, aged: bool, known: Depths) -> tuple[Lane, ...]:
    found: dict[int, list[Head]] = {}
    for lane, id_, enqueued_at, est, type_, avoid, again in db.tuples(
        "snapshot_heads", {"pool_id": pool_id, "heads": heads}
    ):
        head = Head(id=id_, enqueued_at=enqueued_at, est=est, type=type_, avoid=avoid, again=again)
        found.setdefault(lane, []).append(head)
    ids = list(found)
    keys = lane_keys(ids)
    deep = [lane for lane, first in found.items() if len(first) >= heads]  # the others were read whole
    depths = known.of(deep)
    oldest = {}
    if aged and ids:
        for lane, id_, enqueued_at, est, type_, avoid in db.tuples("snapshot_oldest", {"lane_ids": ids}):
            oldest[lane] = Head(id=id_, enqueued_at=enqueued_at, est=est, type=type_, avoid=avoid)
    return tuple(
        Lane(
            id=lane,
            work_class=keys[lane].work_class,
            tenant=keys[lane].tenant,
            user=keys[lane].user,
            caps=keys[lane].caps,
            tools=keys[lane].tools,
            queued=max(len(found[lane]), depths.get(lane, 0)),
            heads=tuple(found[lane]),
            oldest=oldest.get(lane),
        )
        for lane in ids
    )


def _overruns(pool_id: int, unit: str) -> list[Running]:
    params = {"pool_id": pool_id, "by_time": unit == BY_TIME, "limit": MAX_RUNNING}
    return _running(db.rows("snapshot_overruns", params))


def _yieldable(
    pool_id: int,
    classes: Sequence[Row],
    policy: Policy,
    lanes: Sequence[Lane],
    loads: Sequence[Load],
    listed: set[int],
) -> list[Running]:
    """Candidates to yield, only while a floor that may preempt is unmet and somebody runs above the own one."""
    if policy.reclaim_min_runtime is None:
        return []
    runs: dict[int, int] = {}
    for load in loads:
        runs[load.work_class] = runs.get(load.work_class, 0) + load.running
    waiting = {lane.work_class for lane in lanes}
    unmet = [c["id"] for c in classes if c["preempt"] and c["id"] in waiting and runs.get(c["id"], 0) < c["min"]]
    over = [id_ for id_, running in runs.items() if id_ in policy.classes and running > policy.classes[id_].min]
    if not unmet or not over:
        return []
    rows = db.rows("snapshot_yieldable", {"pool_id": pool_id, "class_ids": over, "limit": MAX_RUNNING})
    return [task for task in _running(rows) if task.id not in listed]


def _running(rows: Sequence[Row]) -> list[Running]:
    keys = lane_keys(row["lane_id"] for row in rows)
    return [
        Running(
            id=row["task_id"],
            work_class=keys[row["lane_id"]].work_class,
            tenant=keys[row["lane_id"]].tenant,
            user=keys[row["lane_id"]].user,
            session=row["session_id"],
            started_at=row["started_at"],
            charged=row["charged"],
            cost=row["cost"],
            yielding=row["yielding"],
        )
        for row in rows
    ]


def limits(pool_id: int) -> Snapshot:
    """Policy and what runs, without workers and waiting tasks: enough to judge which lanes their own limits stop."""
    now, read = _read_policy(pool_id)
    held = budgets.state() if read.pool["budgets"] else []
    return Snapshot(now=now, policy=read.of(0, held), loads=_loads(pool_id))
