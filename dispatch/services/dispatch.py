"""Dispatch: one cycle of one pool, in one transaction: fence, promote, settle, snapshot, plan, write, notify.

Only the pool's leader calls this; a cycle of a deposed one raises Deposed before it can write anything. Leases granted
here are offers: they live for the pool's `offer_ttl_s` until a claim of their session delivers them. Repeat a cycle
while it makes progress (`Cycle.more`): one reads a bounded number of heads per lane.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dispatch import events
from dispatch.core import policies
from dispatch.core.memory import Changes, Memory
from dispatch.core.types import Plan, Snapshot
from dispatch.store import budgets, db, snapshot

PROMOTE = 1000  # due tasks made startable in one cycle
SETTLE = 5000  # ended attempts accounted for in one cycle
PICKS = 200  # picks kept in the decision record of one cycle
REPLANS = 8  # times a plan is made at most in one cycle
MORE_HEADS = 8  # times as many heads are read of a lane that ran dry
DEFAULT_POLICY = "fair"
OVERRUN_EVERY_S = 1.0  # running tasks are looked at for overruns this often


class Deposed(Exception):
    """Another process leads this pool by now."""


@dataclass(slots=True)
class PoolMemory:
    """What a leader keeps of one pool between cycles: the policy's accounts and hints for the next snapshot."""

    accounts: Memory
    lanes: int = 1
    overruns_at: float = field(default=0.0)
    depths: snapshot.Depths = field(default_factory=snapshot.Depths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What one cycle did. `more`: another one right now may find more to do."""

    cycle_no: int
    assigned: int = 0
    promoted: int = 0
    settled: int = 0
    yields: int = 0
    more: bool = False
    next_due_s: float | None = None


def load_memory(pool_id: int) -> PoolMemory:
    """A pool's stored accounts, as a new leader finds them."""
    scalars = db.one("load_scalars", {"pool_id": pool_id})
    learned = db.tuples("load_learned", {"pool_id": pool_id})
    accounts = Memory.load(
        dict(db.tuples("load_accounts", {"pool_id": pool_id})),
        {(class_id, tenant_id, kind): data for class_id, tenant_id, kind, data in learned},
        scalars["memory"] if scalars else {},
    )
    return PoolMemory(accounts)


def demanded(pool_id: int) -> bool:
    """Whether anybody asks for work in this pool: without that a cycle starts nothing."""
    return bool(db.tuples("demanded", {"pool_id": pool_id})[0][0])


def cycle(pool_id: int, epoch: int, memory: PoolMemory) -> Cycle:
    """Run one cycle; raises Deposed when `epoch` is not the pool's any more.

    A failed transaction leaves the memory as it was before. After an error of the connection the outcome is unknown:
    load the memory again.
    """
    try:
        with db.atomic():
            done = _cycle(pool_id, epoch, memory)
    except BaseException:
        memory.accounts.rollback()
        raise
    memory.accounts.commit()
    return done


def _cycle(pool_id: int, epoch: int, memory: PoolMemory) -> Cycle:
    started = time.perf_counter()
    fence = db.tuples("begin_cycle", {"pool_id": pool_id, "epoch": epoch, "limit": PROMOTE})
    if not fence:
        raise Deposed
    cycle_no, promoted, due = fence[0]
    ended = snapshot.take_ended(pool_id, SETTLE)
    overruns = started - memory.overruns_at >= OVERRUN_EVERY_S
    reading = snapshot.read(
        pool_id, ended=ended, lanes_before=memory.lanes, overruns=overruns, depths=memory.depths, spends=True
    )
    memory.lanes = max(1, len(reading.snapshot.lanes))
    if overruns:
        memory.overruns_at = started
    plan, complete = _plan(pool_id, reading, memory.accounts)
    _write(plan)
    if reading.budgets:
        _mark_budgets(reading, plan)
    done = Cycle(
        cycle_no=cycle_no,
        assigned=len(plan.assignments),
        promoted=promoted,
        settled=len(ended),
        yields=len(plan.yields),
        more=not complete or promoted == PROMOTE or len(ended) == SETTLE,
        next_due_s=due,
    )
    _store(pool_id, memory.accounts.changes(), plan, done, reading.snapshot, started)
    return done


def _plan(pool_id: int, reading: snapshot.Reading, accounts: Memory) -> tuple[Plan, bool]:
    """Plan and grant what was chosen; also whether the plan is complete: nothing more can start before news come.

    Planned again, from the same memory, when a lane ran dry though it has more than was read (else the others would
    get its share), or when something chosen was taken meanwhile (else its owner would be charged for nothing).
    """
    policy = policies.registry.get(reading.policy, policies.registry[DEFAULT_POLICY])
    view = reading.snapshot
    asked = {lane.id: reading.heads for lane in view.lanes}
    complete = True
    for _ in range(REPLANS):
        plan = policy(view, accounts)
        dry = _dry(view, plan, asked, reading.free)
        if dry:
            heads = min(reading.free, MORE_HEADS * max(asked[lane] for lane in dry))
            view = snapshot.more_heads(view, dry, heads)
            asked.update(dict.fromkeys(dry, heads))
        else:
            gone = _grant(pool_id, reading.offer_ttl_s, plan)
            if not gone:
                return plan, complete
            view, complete = _without(view, gone), False
        accounts.rollback()
    return policy(replace(view, lanes=()), accounts), False


def _dry(view: Snapshot, plan: Plan, asked: Mapping[int, int], free: int) -> list[int]:
    """Lanes of which every head is taken and as many were read as were asked for: there may be more."""
    taken = Counter(assignment.lane for assignment in plan.assignments)
    return [lane.id for lane in view.lanes if asked[lane.id] <= taken[lane.id] < free]


def _grant(pool_id: int, offer_ttl_s: float, plan: Plan) -> set[int]:
    """Offer the chosen tasks to their sessions; nothing is done when some are gone, and those are returned."""
    if not plan.assignments:
        return set()
    task_ids = [a.task for a in plan.assignments]
    whole, startable = db.tuples(
        "grant_leases",
        {
            "task_ids": task_ids,
            "session_ids": [a.session for a in plan.assignments],
            "charges": [a.charged for a in plan.assignments],
            "tiers": [a.tier for a in plan.assignments],
            "pool_id": pool_id,
            "offer_ttl_s": offer_ttl_s,
            "channel": events.SESSION,
            "payloads": db.payloads(a.session for a in plan.assignments),
        },
    )[0]
    return set() if whole else set(task_ids) - set(startable or ())


def _without(view: Snapshot, gone: set[int]) -> Snapshot:
    lanes = []
    for lane in view.lanes:
        heads = tuple(head for head in lane.heads if head.id not in gone)
        oldest = lane.oldest if lane.oldest is None or lane.oldest.id not in gone else None
        if heads:
            lanes.append(replace(lane, heads=heads, oldest=oldest))
    return replace(view, lanes=tuple(lanes))


def _write(plan: Plan) -> None:
    """Charges of overruns, and requests to yield."""
    if plan.overruns:
        params = {"task_ids": list(plan.overruns), "charges": list(plan.overruns.values())}
        db.execute("charge_overruns", params)
    if plan.yields:
        db.hint(events.SESSION, {row[0] for row in db.tuples("ask_to_yield", {"task_ids": list(plan.yields)})})


def _store(pool_id: int, changes: Changes, plan: Plan, done: Cycle, view: Snapshot, started: float) -> None:
    """Deficits, accounts and learned costs that changed, and the record of the cycle; the console is told."""
    nodes = {node: row for node, row in changes.nodes.items() if row is not None}
    learned = {key: row for key, row in changes.learned.items() if row is not None}
    if len(nodes) < len(changes.nodes):
        db.execute("drop_accounts", {"pool_id": pool_id, "nodes": sorted(set(changes.nodes) - set(nodes))})
    if len(learned) < len(changes.learned):
        db.execute(
            "drop_learned", {"pool_id": pool_id, **_keys([key for key in changes.learned if key not in learned])}
        )
    moved = done.promoted or done.assigned or done.settled
    db.execute(
        "store_cycle",
        {
            "pool_id": pool_id,
            "worker_ids": list(plan.deficits),
            "deficits": list(plan.deficits.values()),
            "nodes": list(nodes),
            "accounts": [json.dumps(row) for row in nodes.values()],
            **_keys(learned),
            "learned": [json.dumps(row) for row in learned.values()],
            **_decision(done, view, plan),
            "scalars": json.dumps(changes.scalars),
            "cycle_ms": (time.perf_counter() - started) * 1000,
            "channels": [events.LIVE] if moved else [],
            "payloads": ["dispatch"] if moved else [],
        },
    )


def _mark_budgets(reading: snapshot.Reading, plan: Plan) -> None:
    lanes = {lane.id: (lane.work_class, lane.tenant, lane.user) for lane in reading.snapshot.lanes}
    started = {lanes[assignment.lane] for assignment in plan.assignments}
    paid = {
        id_
        for id_, budget in reading.snapshot.policy.cost_budgets.items()
        if any(budget.covers(*one) for one in started)
    }
    budgets.mark(reading.budgets, plan.refused_by, frozenset(paid))


def _keys(rows: Collection[tuple[Any, Any, str]]) -> dict[str, list[Any]]:
    return {
        "class_ids": [key[0] for key in rows],
        "tenant_ids": [key[1] for key in rows],
        "types": [key[2] for key in rows],
    }


def _decision(done: Cycle, view: Snapshot, plan: Plan) -> dict[str, Any]:
    """The cycle's picks for the decision ring; not kept when nothing was assigned."""
    classes = {lane.id: lane.work_class for lane in view.lanes}
    tenants = {lane.id: lane.tenant for lane in view.lanes}
    lanes = {assignment.task: assignment.lane for assignment in plan.assignments}
    by_class = Counter(str(classes[assignment.lane]) for assignment in plan.assignments)
    by_tier = Counter(f"{classes[one.lane]}/{tenants[one.lane]}/{one.tier}" for one in plan.assignments)
    picks = [
        {
            "task": pick.task,
            "lane": lanes.get(pick.task),
            "session": pick.session,
            "tier": pick.tier,
            "candidates": pick.candidates,
            "deficit": pick.deficit,
            "runner_up": pick.runner_up,
        }
        for pick in plan.picks[:PICKS]
    ]
    return {
        "cycle_no": done.cycle_no,
        "assigned": done.assigned,
        "by_class": json.dumps(by_class),
        "by_tier": json.dumps(by_tier),
        "picks": json.dumps(picks),
    }
