"""What a simulation measured: shares, waits, gaps, spreads, counts. All names are paths for expectations (expect.py).

Subjects are "all:*", "class:a", "tenant:t", "user:t/u", "class_tenant:a/t" and "tool:k". Seconds and cost units.
"""

from collections import Counter, defaultdict
from math import ceil
from typing import Any

from dispatch.core.quota import NO_CLASS, NO_TENANT, NO_USER
from dispatch.core.sim.scenario import Scenario
from dispatch.core.sim.workload import LaneKey, Queue, Task
from dispatch.core.types import MICRO

Report = dict[str, Any]
COUNTS = ("plans", "dispatched", "completed", "failed", "reclaimed", "dead_lettered", "yields")


def subjects(key: LaneKey) -> list[str]:
    """Everything a task of this lane counts for."""
    work_class, tenant, user, _, tools = key
    names = ["all:*", f"class:{work_class}", f"tenant:{tenant}", f"user:{tenant}/{user}"]
    return [*names, f"class_tenant:{work_class}/{tenant}", *(f"tool:{tool}" for tool in tools)]


def starvation_name(key: LaneKey) -> str:
    """Starvation lane: class, tenant, capability set."""
    return "/".join((key[0], key[1], *(["+".join(sorted(key[3]))] if key[3] else [])))


class Meter:
    """Integrates what runs over virtual time."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now = scenario.start
        self.counts: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.log: list[str] = []
        self.running: Counter[str] = Counter()
        self.names: dict[LaneKey, list[str]] = {}
        self.busy: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.cost: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.waits: defaultdict[str, list[int]] = defaultdict(list)
        self.served: dict[str, int] = {}
        self.last: dict[str, int] = {}  # when a task of a subject started last
        self.gaps: Counter[str] = Counter()
        self.short_since: dict[str, int] = {}
        self.short: Counter[str] = Counter()
        self.extremes: dict[str, tuple[float, float]] = {}
        self.series: list[tuple[float, dict[str, int]]] = []

    def of(self, key: LaneKey) -> list[str]:
        """The subjects of a lane, kept."""
        names = self.names.get(key)
        if names is None:
            names = self.names[key] = subjects(key)
        return names

    def advance(self, now: int) -> None:
        """Move to `now`."""
        passed, counted = now - self.now, min(now, self.scenario.horizon) - max(self.now, self.scenario.warmup)
        if passed <= 0:
            return
        for name, n in self.running.items():
            if n:
                self.total[name] += n * passed
                if counted > 0:
                    self.busy[name] += n * counted
        self.now = now
        if now >= self.scenario.warmup:
            self._spread()

    def _spread(self) -> None:
        for kind, one, two in self.scenario.spread:
            gap = self._normal(kind, one) - self._normal(kind, two)
            low, high = self.extremes.get(f"{kind}:{one}~{two}", (gap, gap))
            self.extremes[f"{kind}:{one}~{two}"] = (min(low, gap), max(high, gap))

    def _normal(self, kind: str, name: str) -> float:
        """Slot-seconds so far per weight."""
        policy = self.scenario.policy
        if kind == "class":
            weight = policy.classes.get(name, NO_CLASS).weight
        elif kind == "user":
            tenant, _, user = name.partition("/")
            weight = policy.users.get((tenant, user), NO_USER).weight
        else:
            weight = policy.tenants.get(name.rsplit("/", 1)[-1], NO_TENANT).weight
        return self.total[f"{kind}:{name}"] / weight

    def sample(self) -> None:
        """Keep what runs now."""
        self.series.append((self.now / MICRO, {name: n for name, n in self.running.items() if n}))

    def wakes(self, key: LaneKey) -> None:
        """A starvation lane gets its first waiting task."""
        self.served[starvation_name(key)] = self.now

    def starts_task(self, task: Task) -> None:
        """A task starts."""
        names = self.of(task.key)
        self.running.update(names)
        self.starts.update(names)
        self.last.update(dict.fromkeys(names, self.now))
        self.counts["dispatched"] += 1
        if not task.ever:
            task.ever = True
            if self.now >= self.scenario.warmup:
                for name in names:
                    self.waits[name].append(self.now - task.enqueued_at)
        lane = starvation_name(task.key)
        self.gaps[lane] = max(self.gaps[lane], self.now - self.served.get(lane, self.now))
        self.served[lane] = self.now

    def ends_task(self, task: Task, cost: int, *, completed: bool) -> None:
        """A task leaves its slot."""
        names = self.of(task.key)
        self.running.subtract(names)
        if self.now >= self.scenario.warmup:
            for name in names:
                self.cost[name] += cost
            if completed:
                self.done.update(names)

    def floor(self, work_class: str, below: bool) -> None:
        """Whether a class with startable work runs less than its minimum."""
        since = self.short_since.pop(work_class, None)
        if below:
            self.short_since[work_class] = self.now if since is None else since
        elif since is not None:
            self.short[work_class] = max(self.short[work_class], self.now - since)

    def report(self, queues: list[Queue]) -> Report:
        """Everything, after the end."""
        waiting = [queue for queue in queues if queue.length]
        queued: Counter[str] = Counter()
        oldest: Counter[str] = Counter()
        for queue in waiting:
            task = queue.front(1)[0][2]
            for name in self.of(queue.key):
                queued[name] += queue.length
                oldest[name] = max(oldest[name], self.now - task.enqueued_at)
                if not task.ever:  # censored: it counts with its age
                    self.waits[name].append(self.now - task.enqueued_at)
            lane = starvation_name(queue.key)
            self.gaps[lane] = max(self.gaps[lane], self.now - self.served.get(lane, self.now))
        for work_class in list(self.short_since):
            self.floor(work_class, below=False)
        return self._numbers(queued, oldest)

    def _numbers(self, queued: Counter[str], oldest: Counter[str]) -> Report:
        span = self.scenario.horizon - self.scenario.warmup
        slots = sum(slot.slots for slot in self.scenario.slots)
        busy, cost = self.busy["all:*"], self.cost["all:*"]
        return {
            **{name: self.counts[name] for name in COUNTS},
            "fencing_rejects": self.counts["fencing_rejects"],
            "double_completions": self.counts["double_completions"],
            "violations": {name: self.violations[name] for name in ("cap", "invalid", "work_conservation")},
            "violation_log": self.log,
            "span": span / MICRO,
            "utilisation": busy / (span * slots) if slots else 0,
            "slots": {name: n / span for name, n in self.busy.items()},
            "share": {name: n / busy if busy else 0 for name, n in self.busy.items()},
            "cost_share": {name: n / cost if cost else 0 for name, n in self.cost.items()},
            "dispatches": dict(self.starts),
            "done": dict(self.done),
            "wait": {name: quantiles(waits) for name, waits in self.waits.items()},
            "queued_at_end": dict(queued),
            "oldest_age_at_end": _seconds(oldest),
            "below_min_max": _seconds(self.short),
            "lane_gap_max": _seconds(self.gaps),
            "spread": {name: high - low for name, (low, high) in self.extremes.items()},
            "series": self.series,
        }


def quantiles(waits: list[int]) -> dict[str, float]:
    """p50, p95, p99, max and mean of waits (microseconds in, seconds out), nearest rank."""
    ordered = sorted(waits)
    ranked = {f"p{q}": ordered[max(0, ceil(q * len(ordered) / 100) - 1)] / MICRO for q in (50, 95, 99)}
    return {"n": len(ordered), **ranked, "max": ordered[-1] / MICRO, "mean": sum(ordered) / len(ordered) / MICRO}


def _seconds(counter: Counter[str]) -> dict[str, float]:
    return {name: value / MICRO for name, value in counter.items()}
