"""Why a task does not run: every blocker, its place, an estimate, and who holds the slots (contract.md, Explain).

Asks the dispatcher's own predicates over a fresh snapshot of the pool; nothing is stored per cycle. Costs about
as much as one cycle. A tenant's caller sees no number of others: what a shared limit runs and who the workers are is
left out.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dispatch.core import explain, policies
from dispatch.core.explain import NOBODY_ASKS, Asked, Blocker
from dispatch.core.sentences import in_units, sentence
from dispatch.core.states import WAITING, State
from dispatch.core.types import MICRO, Head, Lane, Snapshot
from dispatch.errors import NotFound
from dispatch.services import access, numbers
from dispatch.services.dispatch import DEFAULT_POLICY, load_memory
from dispatch.services.messages import Caller
from dispatch.store import db, snapshot

MAX_COUNTED = 10_000  # tasks counted before and behind one in its lane, each
MAX_HOLDERS = 20
SHARED = frozenset({"pool", "class", "tool", "worker"})  # kinds whose numbers are those of all tenants together
BUDGET = "budget_spent"  # the code whose value and limit are costs
MOMENTS = frozenset({"scheduled", "backing_off", "tool_cooldown"})  # codes whose value and limit are times

Names = Mapping[tuple[str, Any], Mapping[str, Any]]


def why(caller: Caller, task_id: int) -> dict[str, Any]:
    """The answer of GET /tasks/{id}/why (scope `read`). A task that does not wait has no blockers and no estimate."""
    access.see_task(caller, task_id, "read")
    with db.atomic():
        row = db.one("explain_task", {"task_id": task_id})
        if row is None:
            raise NotFound("There is no such task.")
        answer = {"task_id": task_id, "state": State(row["state"]).word}
        if row["state"] not in WAITING:
            nothing: dict[str, Any] = {
                "blockers": [],
                "position": None,
                "deficit": None,
                "estimate_s": None,
                "holders": [],
            }
            return answer | {"startable": False} | nothing
        return answer | _explain(caller, row)


def _explain(caller: Caller, row: dict[str, Any]) -> dict[str, Any]:
    reading = snapshot.read(row["pool_id"], yields=False)
    view = reading.snapshot
    place = db.rows("explain_place", {**_order(row), "bound": MAX_COUNTED})[0]
    asked = _asked(row, view, place["ahead"])
    planner = policies.registry.get(reading.policy, policies.registry[DEFAULT_POLICY])
    found = explain.explain(view, load_memory(row["pool_id"]).accounts, asked, planner)
    rate = db.rows("explain_rate", {"pool_id": row["pool_id"], "class_id": asked.lane.work_class})[0]["starts_per_s"]
    visible = access.visible_tenants(caller)
    loads = view.loads if visible is None else [load for load in view.loads if load.tenant in visible]
    holders = explain.holders(loads)[:MAX_HOLDERS]
    names = _names(row["pool_id"], asked.lane, found.blockers, holders)
    blockers = found.blockers if access.everywhere(caller) else tuple(_discreet(one) for one in found.blockers)
    owed = numbers.deficits(row["pool_id"], [_class(view, asked.lane)]) if visible is None else {}
    return {
        "startable": found.startable,
        "blockers": [_shown(one, row, asked.lane, names, view) for one in blockers],
        "position": {"lane": place["ahead"] + 1, "ahead_of": place["behind"]},
        "deficit": owed.get(asked.lane.work_class),
        "estimate_s": explain.estimate(found, view, asked, rate),
        "holders": [{kind: names[kind, id_]["name"], "running": n} for kind, id_, n in holders if (kind, id_) in names],
    }


def _class(view: Snapshot, lane: Lane) -> dict[str, Any]:
    return {"id": lane.work_class, "weight": view.policy.classes[lane.work_class].weight / MICRO}


def _order(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: row[name] for name in ("lane_id", "priority", "enqueued_at")}
    return named | {"task_id": row["id"]}


def _asked(row: Mapping[str, Any], view: Snapshot, ahead: int) -> Asked:
    head = Head(
        id=row["id"],
        enqueued_at=row["enqueued"],
        est=row["cost_hint"],
        type=row["type"],
        avoid=row["last_worker_id"],
    )
    lane = next((lane for lane in view.lanes if lane.id == row["lane_id"]), None)
    if lane is None:
        key = snapshot.lane_keys([row["lane_id"]])[row["lane_id"]]
        lane = Lane(
            id=row["lane_id"],
            work_class=key.work_class,
            tenant=key.tenant,
            user=key.user,
            caps=key.caps,
            tools=key.tools,
        )
    scheduled = row["state"] == State.SCHEDULED
    return Asked(
        head=head,
        lane=lane,
        ahead=ahead,
        state=State(row["state"]),
        not_before=row["run_at"] if scheduled else None,
        retrying=scheduled and row["starts"] > 0,
    )


def _names(pool_id: int, lane: Lane, blockers: tuple[Blocker, ...], holders: Any) -> Names:
    wanted: dict[str, set[Any]] = defaultdict(set)
    for kind, subject in [(one.kind, one.subject) for one in blockers] + [(kind, id_) for kind, id_, _ in holders]:
        if subject is not None:
            wanted["class" if kind == "part" else kind].add(subject)
    params = {kind: sorted(wanted[kind]) for kind in ("budget", "class", "tenant", "tool", "user", "worker")}
    return {(row["kind"], row["id"]): row for row in db.rows("explain_names", {"pool_id": pool_id, **params})}


def _discreet(blocker: Blocker) -> Blocker:
    """The blocker without numbers and names that are not the asking tenant's."""
    if blocker.kind not in SHARED or blocker.code in MOMENTS:
        return blocker
    if blocker.kind == "worker":
        value = blocker.value if blocker.value == NOBODY_ASKS else None
        return replace(
            blocker, subject=None, value=value, limit=None if isinstance(blocker.limit, int) else blocker.limit
        )
    return replace(blocker, value=None)


def _shown(blocker: Blocker, row: Mapping[str, Any], lane: Lane, names: Names, view: Snapshot) -> dict[str, Any]:
    subject = row["pool_id"] if blocker.kind == "pool" else blocker.subject
    named = names.get(("class" if blocker.kind == "part" else blocker.kind, subject), {})
    name = str(named.get("name") or "")
    held = row["reason"] if blocker.code == "held" else ""
    why = named.get("why") or held
    if blocker.code == BUDGET:
        why = _until(view.policy.cost_budgets[subject].until)
    text = sentence(blocker, name, waited_s=row["waited_s"], caps=lane.caps, why=why)
    if blocker.code == BUDGET:
        blocker = replace(blocker, value=in_units(blocker.value), limit=in_units(blocker.limit))
    times = blocker.code in MOMENTS
    return {
        "code": blocker.code,
        "kind": blocker.kind,
        "subject": name or (subject if blocker.kind in {"task", "lane"} else None),
        "value": _moment(blocker.value) if times else blocker.value,
        "limit": _moment(blocker.limit) if times else blocker.limit,
        "since": named.get("since") if blocker.code == "paused" else row["queued_at"],
        "text": text,
    }


def _until(micro: int | None) -> str:
    return "" if micro is None else f"until {datetime.fromtimestamp(micro / MICRO, UTC):%Y-%m-%d %H:%M} UTC"


def _moment(micro: float | str | None) -> str | None:
    return datetime.fromtimestamp(micro / MICRO, UTC).isoformat() if isinstance(micro, int) else None
