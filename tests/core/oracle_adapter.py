"""The scheduling core behind a plain-dict interface: `plan(snapshot, memory) -> {"assign", "yield", "memory"}`.

Times and costs come in seconds and cost units (floats) and become microseconds and micro-units. The returned memory is
JSON-able and holds everything that decides.
"""

from copy import deepcopy
from typing import Any

from dispatch.core.memory import Memory
from dispatch.core.policies import Planner, registry
from dispatch.core.sim.scenario import micro, policy_of
from dispatch.core.types import MICRO, Ended, Head, Lane, Load, Policy, Running, Slot, Snapshot

Doc = dict[str, Any]


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
    deficits = {**memory.get("deficits", {}), **core.deficits}
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
    alive = [w for w in snapshot["workers"] if w["alive"]]
    return Snapshot(
        now=micro(now) or 0,
        policy=_policy(snapshot["config"]),
        slots=tuple(_slot(w, deficits.get(w["id"], 0), loads.get(w["id"], 0)) for w in alive),
        lanes=tuple(_lane(lane) for lane in snapshot["lanes"]),
        loads=_loads(snapshot["running"], tasks),
        running=_listed(snapshot, tasks, now, rates),
        ended=tuple(_ended(f, memory.get("tasks", {})) for f in snapshot["finished"]),
    )


_last: list[tuple[Doc, Policy]] = []  # the configuration seen last (a copy) and its policy


def _policy(config: Doc) -> Policy:
    if not _last or _last[0][0] != config:
        _last[:] = [(deepcopy(config), policy_of(config))]
    return _last[0][1]


def _loads(running: list[Doc], tasks: dict[str, Doc]) -> tuple[Load, ...]:
    counts: dict[tuple[Any, ...], list[int]] = {}
    for r in running:
        key = (r["class"], r["tenant"], r["user"], tuple(r["caps"]), tuple(r["tools"]))
        count = counts.setdefault(key, [0, 0, 0])
        count[0] += 1
        count[1] += tasks[r["id"]]["promoted"]
        count[2] += r["yielding"]
    return tuple(
        Load(work_class=c, tenant=t, user=u, caps=frozenset(caps), tools=tools, running=n, promoted=p, yielding=y)
        for (c, t, u, caps, tools), (n, p, y) in counts.items()
    )


def _listed(snapshot: Doc, tasks: dict[str, Doc], now: float, rates: Doc) -> tuple[Running, ...]:
    """Single running tasks matter when they overrun their charge or may be asked to yield."""
    everything = "reclaim" in snapshot["config"]
    listed = []
    for r in snapshot["running"]:
        rate = rates.get(f"{r['class']}/{r['tenant']}", 1)
        if everything or (now - r["started_at"]) * rate * MICRO > tasks[r["id"]]["charged"]:
            listed.append(_running(r, tasks[r["id"]], now, rate))
    return tuple(listed)


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


def _running(r: Doc, task: Doc, now: float, rate: float) -> Running:
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
