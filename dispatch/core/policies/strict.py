"""Strict priority: best level first, then the heaviest class, then the oldest task. It starves; that is its use.

The negative control of the fairness tests, and a choice for pools whose classes must not share. Limits, floors of
others kept back (`lend`) and placement are the same as everywhere; nothing is charged, nothing is remembered.
"""

from heapq import heapify, heappop, heapreplace

from dispatch.core.cycle import Choice, Cycle
from dispatch.core.lanes import Leaf
from dispatch.core.matching import Place
from dispatch.core.memory import Memory
from dispatch.core.quota import NO_CLASS
from dispatch.core.types import Head, Id, Plan, Snapshot

Entry = tuple[int, int, int, Id, Leaf]


def plan(snapshot: Snapshot, memory: Memory) -> Plan:
    """One cycle in strict order."""
    cycle = Cycle(snapshot, memory)
    cycle.run(StrictOrder(cycle))
    return cycle.plan()


class StrictOrder:
    """All lanes in one heap."""

    def __init__(self, cycle: Cycle) -> None:
        self.quotas = cycle.quotas
        self.classes = cycle.snapshot.policy.classes
        self.heap = [self._entry(Leaf(lane, cycle.fleet.need(lane), cycle.quotas)) for lane in cycle.snapshot.lanes]
        heapify(self.heap)

    def _entry(self, leaf: Leaf) -> Entry:
        weight = self.classes.get(leaf.lane.work_class, NO_CLASS).weight
        return (leaf.level, -weight, leaf.oldest, leaf.id, leaf)

    def next(self) -> Choice | None:
        """The first startable lane in order."""
        heap = self.heap
        while heap:
            leaf = heap[0][-1]
            entry = self._entry(leaf)
            if not leaf.startable(self.quotas):
                heappop(heap)
            elif entry != heap[0]:
                heapreplace(heap, entry)
            else:
                return Choice(leaf, "W", 0)
        return None

    def swap(self, choice: Choice, place: Place) -> Choice:
        """Order is order."""
        return choice

    def start(self, choice: Choice, head: Head, cost: int) -> None:
        """Nothing is charged."""

    def why(self, choice: Choice) -> tuple[int, Id]:
        """No deficits here; the runner-up is the next in the heap."""
        return 0, min((entry[:-1] for entry in self.heap[1:3]), default=(0, 0, 0, None))[3]

    def close(self) -> None:
        """Nothing is remembered."""
