"""What a draft of the policy would do: judged in words, then tried on the backlog as it stands.

The draft is made inside a transaction that is taken back, so the rules are those of saving and the policy is read as
the dispatcher reads it. Then the dispatcher's own core works the same backlog off twice on a virtual clock
(core/sim/backlog.py): as the policy is, and as it would be. Tasks run as long as those of their class and tenant did
lately; nothing new arrives, no worker comes or goes, nothing fails, cost budgets are not counted.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dispatch.core import policies
from dispatch.core.cost import charge_for
from dispatch.core.cycle import known_costs
from dispatch.core.memory import Memory
from dispatch.core.sim.backlog import Backlog, Held, drain, text
from dispatch.core.sim.report import Report
from dispatch.core.sim.scenario import Doc
from dispatch.core.states import Outcome
from dispatch.core.types import MICRO, Lane, Policy
from dispatch.errors import Invalid
from dispatch.services import access, numbers, policy_sets
from dispatch.services.dispatch import DEFAULT_POLICY, load_memory
from dispatch.services.messages import Caller
from dispatch.store import db, snapshot

SPAN_S = 6 * 3600
MOST = 3000  # tasks that start in one run, and that are looked at
LANES = 1000  # queues with work; a cycle of the run costs as much as there are
COST = 200_000  # starts times queues of one run: some seconds
NEWEST = 5000  # attempts whose runtimes count
ASSUMED_S = 60.0  # a runtime where none was ever seen
SHIFT = 0.02  # shares of who is not served to the end that differ by less are the same
WORSE = 1.1  # waits that differ by less, or by less than a second, are the same

Seen = tuple[Backlog, snapshot.Reading, dict[str, list[dict[str, Any]]], bool]


class _Taken(Exception):
    """The draft is taken back."""


def preview(caller: Caller, changes: Sequence[Mapping[str, Any]], pool: str | None = None) -> dict[str, Any]:
    """Try edits as those of policy_sets.apply on the backlog of a pool (scope `operate`); nothing is kept.

    Answers {"pool", "slots", "queued", "started", "span_s", "window_s", "assumed_runtimes", "warnings", "classes",
    "tenants", "worse"}. Of each class and tenant, `before` and `after`: its `share` of the slot time of `window_s`,
    `wait_p50_s` and `wait_p95_s` of what started or still waits, `drain_s` until its last task has started (None: not
    within the run), `gap_s`, the longest time that one of its queues with work got nothing; and a `verdict`.
    Raises Invalid and VersionConflict as apply does.
    """
    access.require_everywhere(caller, "operate")
    found = numbers.find_pool(caller, pool)
    pool_id = found["id"]
    with db.atomic():
        backlog, reading, names, assumed = _read(pool_id)
    warnings, drafted = _drafted(caller, pool_id, changes)
    before, after = (_run(backlog, one, load_memory(pool_id).accounts) for one in (reading, drafted))
    lines = {kind: _lines(kind, names[kind], before, after) for kind in ("class", "tenant")}
    return {
        "pool": found["slug"],
        "slots": sum(slot.slots for slot in backlog.slots),
        "queued": sum(lane.queued for lane in reading.snapshot.lanes),
        "started": max(0, after["dispatched"] - len(backlog.held)),
        "span_s": SPAN_S,
        "window_s": 600,
        "assumed_runtimes": assumed,
        "warnings": warnings,
        "classes": lines["class"],
        "tenants": lines["tenant"],
        "worse": [f"{kind}/{one['slug']}" for kind in lines for one in lines[kind] if one["verdict"] == "worse"],
    }


def _drafted(
    caller: Caller, pool_id: int, changes: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, str]], snapshot.Reading]:
    warnings: list[dict[str, str]] = []
    kept: list[snapshot.Reading] = []
    try:
        with db.atomic():
            warnings = policy_sets.make(caller, changes, "preview")
            kept.append(snapshot.read(pool_id, yields=False))
            raise _Taken
    except _Taken:
        return warnings, kept[0]


def _run(backlog: Backlog, reading: snapshot.Reading, memory: Memory) -> Report:
    planner = policies.registry.get(reading.policy, policies.registry[DEFAULT_POLICY])
    most = len(backlog.held) + min(MOST, max(1, COST // max(1, len(reading.snapshot.lanes))))
    return drain(backlog, reading.snapshot.policy, planner, memory, span=SPAN_S * MICRO, most=most)


# The backlog


def _read(pool_id: int) -> Seen:
    reading = snapshot.read(pool_id, yields=False)
    view = reading.snapshot
    if len(view.lanes) > LANES:
        raise Invalid(("pool", f"has {len(view.lanes)} queues with work; a preview looks at {LANES} at most"))
    heads = max(1, MOST // max(1, len(view.lanes)))
    if any(len(lane.heads) < min(heads, lane.queued) for lane in view.lanes):
        view = snapshot.more_heads(view, [lane.id for lane in view.lanes], heads)
    runtimes = _Runtimes(
        db.rows("preview_runtimes", {"pool_id": pool_id, "limit": NEWEST, "outcome": Outcome.SUCCEEDED.value})
    )
    memory = load_memory(pool_id).accounts
    work = [line for lane in view.lanes for line in _waiting(lane, view.policy, memory, runtimes, view.now)]
    sessions = [slot.id for slot in view.slots]
    held = _held(db.rows("preview_running", {"pool_id": pool_id, "session_ids": sessions}), runtimes)
    names: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in db.rows("preview_names", {"pool_id": pool_id}):
        names[row["kind"]].append(row)
    backlog = Backlog(now=view.now, slots=view.slots, workload=tuple(work), held=held)
    return backlog, reading, names, runtimes.assumed


class _Runtimes:
    """Seconds by class and tenant: of both, else of the class, else of the pool; `assumed` once none was known."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        sums: dict[Any, tuple[int, float]] = {}
        for row in rows:
            for key in ((row["work_class_id"], row["tenant_id"]), row["work_class_id"], None):
                n, total = sums.get(key, (0, 0.0))
                sums[key] = (n + row["n"], total + row["n"] * row["ran_s"])
        self.means = {key: total / n for key, (n, total) in sums.items()}
        self.assumed = False

    def of(self, work_class: int, tenant: int) -> float:
        for key in ((work_class, tenant), work_class, None):
            if key in self.means:
                return max(0.001, self.means[key])
        self.assumed = True
        return ASSUMED_S


def _spec(key: Lane | snapshot.LaneKey, runtime: float, cost: int) -> dict[str, Any]:
    return {
        "kind": "burst",
        "class": text(key.work_class),
        "tenant": text(key.tenant),
        "user": str(key.user),
        "caps": sorted(key.caps),
        "tools": sorted(str(tool) for tool in key.tools),
        "dur": runtime,
        "est": cost / MICRO,
        "cost_rate": cost / MICRO / runtime,
    }


def _waiting(lane: Lane, policy: Policy, memory: Memory, runtimes: _Runtimes, now: int) -> list[Doc]:
    """Workload lines of one queue: its first tasks one by one, the others at once with the age of the last of them."""
    runtime = runtimes.of(lane.work_class, lane.tenant)
    lines: list[Doc] = []
    for head in lane.heads:
        known, default = known_costs(policy, memory, (lane.work_class, lane.tenant, head.type))[:2]
        cost = charge_for(head.est, known, default, policy.max_task_cost)
        line = _spec(lane, runtime, cost) | {"at": now / MICRO, "enqueued_at": head.enqueued_at / MICRO}
        lines.append(line)
    rest = lane.queued - len(lines)
    return [*lines, {**lines[-1], "count": rest}] if rest > 0 and lines else lines


def _held(rows: Sequence[Mapping[str, Any]], runtimes: _Runtimes) -> list[Held]:
    keys = snapshot.lane_keys(row["lane_id"] for row in rows)
    held = []
    for row in rows:
        key = keys[row["lane_id"]]
        spec = _spec(key, runtimes.of(key.work_class, key.tenant), row["charged"])
        held.append(
            Held(spec=spec, session=row["session_id"], ran=row["ran"], charged=row["charged"], promoted=row["promoted"])
        )
    return held


# The answer


def _lines(kind: str, names: Sequence[Mapping[str, Any]], before: Report, after: Report) -> list[dict[str, Any]]:
    """Those of whom something waits or runs."""
    lines = []
    for row in names:
        subject = f"{kind}:{row['id']}"
        if subject in before["share"] or subject in before["queued_at_end"]:
            was, will = (_numbers(kind, str(row["id"]), report) for report in (before, after))
            lines.append({"slug": row["slug"], "before": was, "after": will, "verdict": _verdict(was, will)})
    return sorted(lines, key=lambda line: str(line["slug"]))


def _numbers(kind: str, id_: str, report: Report) -> dict[str, float | None]:
    subject = f"{kind}:{id_}"
    wait = report["wait"].get(subject, {})
    place = 0 if kind == "class" else 1
    gaps = [gap for lane, gap in report["lane_gap_max"].items() if lane.split("/")[place] == id_]
    drained = not report["queued_at_end"].get(subject)
    return {
        "share": report["early"].get(subject, 0.0),
        "wait_p50_s": wait.get("p50"),
        "wait_p95_s": wait.get("p95"),
        "drain_s": report["last_start"].get(subject) if drained else None,
        "gap_s": max(gaps, default=0.0),
    }


def _verdict(was: Mapping[str, float | None], will: Mapping[str, float | None]) -> str:
    """`worse`, `better` or `same`: whether it is served to the end; if not at all, the shares; else the waits."""
    if (was["drain_s"] is None) != (will["drain_s"] is None):
        return "worse" if will["drain_s"] is None else "better"
    gained = (will["share"] or 0.0) - (was["share"] or 0.0)
    if will["drain_s"] is None and abs(gained) > SHIFT:
        return "worse" if gained < 0 else "better"
    for name in ("wait_p95_s", "wait_p50_s"):
        one, two = was[name] or 0.0, will[name] or 0.0
        if abs(one - two) >= 1 and max(one, two) > WORSE * min(one, two):
            return "worse" if two > one else "better"
    return "same"
