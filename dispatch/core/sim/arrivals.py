"""The agenda of a simulation, and what arrives by it."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from dispatch.core.sim.report import Meter, starvation_name
from dispatch.core.sim.scenario import Scenario
from dispatch.core.sim.workload import Item, LaneKey, Queue, Task
from dispatch.core.types import MICRO


class Agenda:
    """Events in order of time, then of their making."""

    def __init__(self) -> None:
        self.now = 0
        self._order = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, when: int, what: Callable[..., None], *args: Any) -> None:
        """Put an event on the agenda."""
        self._order += 1
        heappush(self._events, (when, self._order, what, args))

    def next_instant(self, horizon: int) -> bool:
        """Move the clock to the next event before the horizon; False when there is none."""
        if not self._events or self._events[0][0] >= horizon:
            return False
        self.now = self._events[0][0]
        return True

    def play(self) -> None:
        """Everything that happens at this instant."""
        while self._events and self._events[0][0] == self.now:
            _, _, what, args = heappop(self._events)
            what(*args)


class Arrivals:
    """The queues and the sources that feed them."""

    def __init__(self, agenda: Agenda, meter: Meter, scenario: Scenario, capacity: int) -> None:
        self.agenda = agenda
        self.meter = meter
        self.scenario = scenario
        self.capacity = capacity
        self.queues: dict[LaneKey, Queue] = {}
        self.by_name: dict[str, Queue] = {}
        self.sustained: list[Item] = []
        self.last_id = 0
        for number, spec in enumerate(scenario.workload):
            self._plan(Item(number, spec))

    def _plan(self, item: Item) -> None:
        spec = item.spec
        match spec["kind"]:
            case "burst":
                self.agenda.at(item.start, self._burst, item)
            case "periodic":
                self.agenda.at(item.start, self._periodic, item, 1)
            case "poisson":
                self.agenda.at(item.start + item.random.gap(spec["rate"]), self._poisson, item)
            case "sustain":
                self.agenda.at(item.start, self.sustained.append, item)
                if spec.get("stop") is not None:
                    self.agenda.at(round(spec["stop"] * MICRO), self._stop_sustaining, item)
            case kind:
                raise ValueError(f"unknown kind of workload: {kind}")

    def waiting(self) -> bool:
        """Whether anything is queued."""
        return any(queue.length for queue in self.queues.values())

    def put_back(self, task: Task) -> None:
        """A task returns to its place."""
        queue = self._queue(task.key)
        self._wake(queue)
        queue.put_back(task)

    def _queue(self, key: LaneKey) -> Queue:
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = Queue(key)
            self.by_name[queue.name] = queue
        return queue

    def _wake(self, queue: Queue) -> None:
        if queue.length == 0:
            name = starvation_name(queue.key)
            if not any(q.length for k, q in self.queues.items() if starvation_name(k) == name):
                self.meter.wakes(queue.key)

    def _arrive(self, item: Item, n: int) -> None:
        queue = self._queue(item.key)
        self._wake(queue)
        at = item.spec.get("enqueued_at")
        queue.arrive(item, self.agenda.now if at is None else round(at * MICRO), self.last_id + 1, n)
        self.last_id += n

    def _burst(self, item: Item) -> None:
        self._arrive(item, item.spec.get("count", 1))

    def _periodic(self, item: Item, n: int) -> None:
        spec = item.spec
        if item.on(self.agenda.now):
            self._arrive(item, spec.get("count", 1))
        following = item.start + round(n * spec["every"] * MICRO)
        stop = round(spec["stop"] * MICRO) if "stop" in spec else self.scenario.horizon
        if following < stop and n < spec.get("n", 1 << 60):
            self.agenda.at(following, self._periodic, item, n + 1)

    def _poisson(self, item: Item) -> None:
        if item.on(self.agenda.now):
            self._arrive(item, 1)
        following = self.agenda.now + item.random.gap(item.spec["rate"])
        if following < (round(item.spec["stop"] * MICRO) if "stop" in item.spec else self.scenario.horizon):
            self.agenda.at(following, self._poisson, item)

    def _stop_sustaining(self, item: Item) -> None:
        self.sustained.remove(item)
        if item.spec.get("purge"):
            self._queue(item.key).clear()

    def refill(self) -> None:
        """Bring sustained queues back to their depth."""
        for item in self.sustained:
            if item.on(self.agenda.now):
                missing = item.spec.get("depth", max(2, 2 * self.capacity)) - self._queue(item.key).length
                if missing > 0:
                    self._arrive(item, missing)
