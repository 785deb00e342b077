"""Arrivals of a simulation, and the queues they wait in. A burst of a million tasks is made only as far as it runs."""

from bisect import insort
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from math import log
from typing import Any

from dispatch.core.sim.scenario import micro
from dispatch.core.types import MICRO, Head, Id, Lane

LaneKey = tuple[str, str, str, frozenset[str], tuple[str, ...]]


class Random:
    """A small seeded generator (splitmix64): the core imports no randomness, and a replay must be exact."""

    def __init__(self, seed: object) -> None:
        self.state = int.from_bytes(blake2s(str(seed).encode(), digest_size=8).digest())

    def next(self) -> float:
        """A number in [0, 1)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return ((z ^ (z >> 31)) >> 11) / (1 << 53)

    def draw(self, spec: float | Mapping[str, Sequence[float]]) -> float:
        """One number of: a constant, {"uniform": [a, b]}, {"uniform_int": [a, b]}, {"choices": [...]}."""
        if isinstance(spec, (int, float)):
            return spec
        if "uniform" in spec:
            low, high = spec["uniform"]
            return low + (high - low) * self.next()
        if "uniform_int" in spec:
            low, high = spec["uniform_int"]
            return low + int(self.next() * (high - low + 1))
        return spec["choices"][int(self.next() * len(spec["choices"]))]

    def gap(self, rate: float) -> int:
        """Microseconds to the next arrival of a Poisson process."""
        return round(-log(1 - self.next()) / rate * MICRO)


class Task:
    """One simulated task. `token` is the fence: every start and every reclaim raises it."""

    __slots__ = (
        "attempts",
        "charged",
        "dur",
        "enqueued_at",
        "ever",
        "head",
        "id",
        "key",
        "poison",
        "promoted",
        "rate",
        "resume",
        "slot",
        "started_at",
        "token",
        "yieldable",
        "yielding",
    )

    def __init__(self, id: Id, key: LaneKey, enqueued_at: int, item: "Item") -> None:
        spec, random = item.spec, item.random
        self.id = id
        self.key = key
        self.enqueued_at = enqueued_at
        seconds = random.draw(spec.get("dur", 10))
        self.dur = round(seconds * MICRO)
        self.rate = spec.get("cost_rate", 1)
        est = random.draw(spec["est"]) if spec.get("est") is not None else None
        hint = micro(est) if "est" in spec else round(self.dur * self.rate)
        self.head = Head(id=id, enqueued_at=enqueued_at, est=hint)
        self.poison = bool(spec.get("poison", False))
        self.yieldable = bool(spec.get("yieldable", True))
        self.resume = bool(spec.get("resume", True))
        self.attempts = self.token = self.charged = self.started_at = 0
        self.promoted = self.yielding = self.ever = False
        self.slot: Id = None


class Item:
    """One line of the workload with its own random numbers."""

    def __init__(self, number: int, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.random = Random(f"{spec.get('seed', 1000 + number)}:{spec.get('user', '')}:{number}")
        caps, tools = frozenset(spec.get("caps", ())), tuple(sorted(spec.get("tools", ())))
        self.key: LaneKey = (spec["class"], spec["tenant"], spec.get("user", "u0"), caps, tools)
        self.start = round(spec.get("start", spec.get("at", 0)) * MICRO)

    def on(self, now: int) -> bool:
        """Whether an on/off source is on."""
        if "on" not in self.spec:
            return True
        phase = (now - self.start) / MICRO % (self.spec["on"] + self.spec["off"])
        return bool(phase < self.spec["on"])


class Queue:
    """One lane's queue in start order (enqueued_at, id); bursts wait unmade behind what is ready."""

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.name = "|".join((*key[:3], ",".join(sorted(key[3])), ",".join(key[4])))
        self.ready: list[tuple[int, int, Task]] = []
        self.unmade: list[tuple[int, int, int, Item]] = []  # enqueued_at, next id, how many, whose
        self.length = 0
        self._seen: tuple[int, Lane] | None = None  # until the queue changes

    def arrive(self, item: Item, now: int, first: int, n: int) -> None:
        """`n` new tasks with ids from `first` on."""
        self.unmade.append((now, first, n, item))
        self.length += n
        self._seen = None

    def put_back(self, task: Task) -> None:
        """A task that returns keeps its place."""
        insort(self.ready, (task.enqueued_at, task.id, task))
        self.length += 1
        self._seen = None

    def front(self, n: int) -> list[tuple[int, int, Task]]:
        """The first `n` tasks, made if need be."""
        while self.unmade and (len(self.ready) < n or self.unmade[0][:2] < self.ready[n - 1][:2]):
            at, id_, left, item = self.unmade[0]
            insort(self.ready, (at, id_, Task(id_, self.key, at, item)))
            if left > 1:
                self.unmade[0] = (at, id_ + 1, left - 1, item)
            else:
                self.unmade.pop(0)
        return self.ready[:n]

    def take(self, task: Task) -> None:
        """Remove a task that starts."""
        self.ready.remove((task.enqueued_at, task.id, task))
        self.length -= 1
        self._seen = None

    def clear(self) -> None:
        """Drop everything that waits."""
        self.ready, self.unmade, self.length, self._seen = [], [], 0, None

    def lane(self, wanted: int) -> Lane:
        """The lane as the dispatcher sees it, with up to `wanted` heads."""
        if self._seen is None or self._seen[0] != wanted:
            work_class, tenant, user, caps, tools = self.key
            lane = Lane(
                id=self.name,
                work_class=work_class,
                tenant=tenant,
                user=user,
                caps=caps,
                tools=tools,
                queued=self.length,
                heads=tuple(task.head for _, _, task in self.front(wanted)),
            )
            self._seen = (wanted, lane)
        return self._seen[1]
