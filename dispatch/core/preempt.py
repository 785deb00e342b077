"""Cooperative preemption: whom to ask to yield while a class with waiting work stays below its floor.

Never more than the floors are short of, less what is already yielding or free; never a class at its floor, a task that
may not yield, one that ran less than the minimum, or one whose slot the waiting work could not use. A class below
its floor never becomes a victim and a victim never falls below its own, so two classes never chase each other.
"""

from heapq import heapify, heappop, heapreplace
from typing import Any

from dispatch.core.matching import fits
from dispatch.core.quota import NO_CLASS, ClassCount, Quotas
from dispatch.core.types import MICRO, Id, Lane, Running, Snapshot


def yields(snapshot: Snapshot, quotas: Quotas, started: dict[Id, int]) -> tuple[Id, ...]:
    """Tasks to ask for their slot. `quotas` as after the plan; `started`: lane → tasks started in this cycle."""
    policy = snapshot.policy
    if policy.reclaim_min_runtime is None or policy.paused:
        return ()
    short, waiting = _short(snapshot, quotas, started)
    wanted = sum(short.values()) - quotas.yielding
    if wanted <= policy.reclaim_dead_zone:
        return ()
    if policy.reclaim_per_round is not None:
        wanted = min(wanted, policy.reclaim_per_round)
    victims = _victims(snapshot, quotas, waiting)
    return tuple(_choose(victims, quotas, snapshot, wanted))


def _short(snapshot: Snapshot, quotas: Quotas, started: dict[Id, int]) -> tuple[dict[Id, int], list[Lane]]:
    """How many slots each class lacks to its floor for work that could use them, and the lanes that wait."""
    lacking = {
        class_id: count.emin - count.run
        for class_id, count in quotas.classes.items()
        if count.run < count.emin and snapshot.policy.classes.get(class_id, NO_CLASS).preempt
    }
    queued: dict[Id, int] = dict.fromkeys(lacking, 0)
    waiting = []
    for lane in snapshot.lanes:
        if lane.work_class in lacking and quotas.within_limits(lane):
            left = lane.queued - started.get(lane.id, 0)
            if left > 0:
                queued[lane.work_class] += left
                waiting.append(lane)
    return {class_id: min(n, queued[class_id]) for class_id, n in lacking.items()}, waiting


def _victims(snapshot: Snapshot, quotas: Quotas, waiting: list[Lane]) -> dict[Id, list[Running]]:
    """Who may be asked, by class, youngest first."""
    needs = {(lane.caps, lane.tenant) for lane in waiting}
    offers = {slot.id: slot for slot in snapshot.slots}
    runtime = snapshot.policy.reclaim_min_runtime or 0
    found: dict[Id, list[Running]] = {}
    for task in snapshot.running:
        count = quotas.of_class(task.work_class)
        if not task.yieldable or task.yielding or count.run <= count.emin or snapshot.now - task.started_at < runtime:
            continue
        slot = offers.get(task.session)
        if task.session is None or (slot is not None and any(fits(slot, *need) for need in needs)):
            found.setdefault(task.work_class, []).append(task)
    for tasks in found.values():
        tasks.sort(key=lambda task: (-task.started_at, task.id))
    return found


def _choose(victims: dict[Id, list[Running]], quotas: Quotas, snapshot: Snapshot, wanted: int) -> list[Id]:
    """The class most over its weight gives first, down to its floor."""

    def entry(class_id: Id, left: int) -> tuple[int, Any, int]:
        weight = snapshot.policy.classes.get(class_id, NO_CLASS).weight
        return (-(left * MICRO * MICRO // weight) if weight else -(1 << 100), class_id, left)

    heap = []
    for class_id in victims:
        count: ClassCount = quotas.of_class(class_id)
        heap.append(entry(class_id, count.run - count.yielding))
    heapify(heap)
    chosen: list[Id] = []
    at = dict.fromkeys(victims, 0)
    while heap and len(chosen) < wanted:
        _, class_id, left = heap[0]
        tasks = victims[class_id]
        if left <= quotas.of_class(class_id).emin or at[class_id] >= len(tasks):
            heappop(heap)
            continue
        chosen.append(tasks[at[class_id]].id)
        at[class_id] += 1
        heapreplace(heap, entry(class_id, left - 1))
    return chosen
