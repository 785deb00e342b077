"""The scheduling core behind a plain-dict interface: `plan(snapshot, memory) -> {"assign", "yield", "memory"}`.

Times and costs come in seconds and cost units (floats) and become microseconds and micro-units. The returned memory is
JSON-able and holds everything; nothing is kept in this module.
"""

from typing import Any

from dispatch.core.memory import Memory
from dispatch.core.policies import Planner, registry
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

Doc = dict[str, Any]


def micro(value: float | None) -> int | None:
    """Seconds or cost units in millionths; None stays None."""
    return None if value is None else round(value * MICRO)


def policy_of(config: Doc) -> Policy:
    """The policy in an oracle configuration."""
    classes = {
        name: ClassPolicy(
            weight=round(c.get("weight", 1) * MICRO),
            min=c.get("min", 0),
            max=c.get("max"),
            lend=c.get("lend"),
            level=c.get("level", 1),
            aging_step=micro(c.get("aging_step")),
            max_wait=micro(c.get("max_wait")),
        )
        for name, c in config.get("classes", {}).items()
    }
    tenants = {
        name: TenantPolicy(
            weight=round(t.get("weight", 1) * MICRO),
            nominal=t.get("nominal", 0),
            max=t.get("max"),
            borrow=t.get("borrow_limit"),
        )
        for name, t in config.get("tenants", {}).items()
    }
    users = {
        tuple(name.split("/", 1)): UserPolicy(weight=round(u.get("weight", 1) * MICRO), max=u.get("max"))
        for name, u in config.get("users", {}).items()
    }
    reclaim = config.get("reclaim")
    return Policy(
        budget=config.get("global_budget"),
        promotion_slots=config.get("promotion_slots", 0),
        user_max=config.get("user_max"),
        max_task_cost=micro(config.get("max_task_cost")),
        debt_halflife=micro(config.get("debt_halflife")),
        reclaim_min_runtime=None if reclaim is None else micro(reclaim.get("min_runtime", 0)),
        classes=classes,
        tenants=tenants,
        users=users,
        tools={name: ToolPolicy(max=t.get("max")) for name, t in config.get("tools", {}).items()},
    )


def plan_with(planner: Planner, snapshot: Doc, memory: Doc) -> Doc:
    """One cycle of any policy in the dict interface."""
    tasks = _tasks(snapshot, memory)
    ours = _snapshot(snapshot, memory, tasks)
    core = _memory(memory.get("core", {}))
    plan = planner(ours, core)
    heads = {head["id"]: (lane, head) for lane in snapshot["lanes"] for head in lane["heads"]}
    for task, charged in plan.overruns.items():
        tasks[task]["charged"] = charged
    for a in plan.assignments:
        tasks[a.task] = {"charged": a.charged, "hint": micro(heads[a.task][1]["est"]), "promoted": a.tier == "P"}
        tasks[a.task]["at"] = micro(snapshot["now"])
    deficits = {**memory.get("deficits", {}), **plan.deficits}
    return {
        "assign": [[a.task, a.session] for a in plan.assignments],
        "yield": list(plan.yields),
        "memory": {"core": _stored(core), "tasks": tasks, "deficits": deficits, "rates": _rates(snapshot, memory)},
    }


def plan(snapshot: Doc, memory: Doc) -> Doc:
    """One cycle of the fair policy."""
    return plan_with(registry["fair"], snapshot, memory)


def _tasks(snapshot: Doc, memory: Doc) -> dict[str, Doc]:
    """What was noted about each running task at its dispatch; unknown ones count as charged by their hint."""
    known = memory.get("tasks", {})
    return {
        r["id"]: known.get(r["id"])
        or {"charged": micro(r["est"]) or 0, "hint": micro(r["est"]), "promoted": False, "at": micro(r["started_at"])}
        for r in snapshot["running"]
    }


def _rates(snapshot: Doc, memory: Doc) -> Doc:
    """Cost per second as last measured, per class and tenant: what an overrun is charged by."""
    rates = dict(memory.get("rates", {}))
    for f in snapshot["finished"]:
        task = memory.get("tasks", {}).get(f["id"])
        elapsed = snapshot["now"] - task["at"] / MICRO if task else 0
        if elapsed > 0 and f["outcome"] == "done":
            rates[f"{f['class']}/{f['tenant']}"] = f["cost"] / elapsed
    return rates


def _snapshot(snapshot: Doc, memory: Doc, tasks: dict[str, Doc]) -> Snapshot:
    deficits, rates, now = memory.get("deficits", {}), memory.get("rates", {}), snapshot["now"]
    loads: dict[str, int] = {}
    for r in snapshot["running"]:
        loads[r["worker"]] = loads.get(r["worker"], 0) + tasks[r["id"]]["charged"]
    return Snapshot(
        now=micro(now) or 0,
        policy=policy_of(snapshot["config"]),
        slots=tuple(
            _slot(w, deficits.get(w["id"], 0), loads.get(w["id"], 0)) for w in snapshot["workers"] if w["alive"]
        ),
        lanes=tuple(_lane(lane) for lane in snapshot["lanes"]),
        loads=tuple(_load(r, tasks[r["id"]]) for r in snapshot["running"]),
        running=tuple(_running(r, tasks[r["id"]], now, rates) for r in snapshot["running"]),
        ended=tuple(_ended(f, memory.get("tasks", {})) for f in snapshot["finished"]),
    )


def _slot(w: Doc, deficit: int, load: int) -> Slot:
    return Slot(
        id=w["id"],
        worker=w["id"],
        slots=w["slots"],
        free=w["free"],
        caps=frozenset(w["caps"]),
        weight=round(w["weight"] * MICRO),
        deficit=deficit,
        load=load,
    )


def _lane(lane: Doc) -> Lane:
    caps, tools = tuple(sorted(lane["caps"])), tuple(sorted(lane["tools"]))
    return Lane(
        id="|".join((lane["class"], lane["tenant"], lane["user"], ",".join(caps), ",".join(tools))),
        work_class=lane["class"],
        tenant=lane["tenant"],
        user=lane["user"],
        caps=frozenset(caps),
        tools=tools,
        queued=lane["queued"],
        heads=tuple(
            Head(id=h["id"], enqueued_at=micro(h["enqueued_at"]) or 0, est=micro(h["est"])) for h in lane["heads"]
        ),
    )


def _load(r: Doc, task: Doc) -> Load:
    return Load(
        work_class=r["class"],
        tenant=r["tenant"],
        user=r["user"],
        caps=frozenset(r["caps"]),
        tools=tuple(r["tools"]),
        promoted=int(task["promoted"]),
        yielding=int(r["yielding"]),
    )


def _running(r: Doc, task: Doc, now: float, rates: Doc) -> Running:
    rate = rates.get(f"{r['class']}/{r['tenant']}", 1)
    return Running(
        id=r["id"],
        work_class=r["class"],
        tenant=r["tenant"],
        user=r["user"],
        started_at=micro(r["started_at"]) or 0,
        charged=task["charged"],
        session=r["worker"],
        cost=micro((now - r["started_at"]) * rate) or 0,
        yieldable=r["yieldable"],
        yielding=r["yielding"],
    )


def _ended(f: Doc, tasks: Doc) -> Ended:
    actual = micro(f["cost"]) or 0
    task = tasks.get(f["id"], {"charged": actual, "hint": None})
    return Ended(
        work_class=f["class"],
        tenant=f["tenant"],
        user=f["user"],
        worker=f["worker"],
        charged=task["charged"],
        actual=actual,
        hint=task["hint"],
        completed=f["outcome"] in ("done", "failed"),
    )


def _stored(core: Memory) -> Doc:
    """The core's rows as JSON: learned costs have a composed key."""
    rows = core.dump()
    learned = [[list(key), row] for key, row in sorted(rows.learned.items(), key=lambda item: str(item[0]))]
    return {"nodes": rows.nodes, "learned": learned, "scalars": rows.scalars}


def _memory(stored: Doc) -> Memory:
    learned = {tuple(key): row for key, row in stored.get("learned", [])}
    return Memory.load(stored.get("nodes", {}), learned, stored.get("scalars", {}))
