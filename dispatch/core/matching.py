"""Where: which free slot takes a task. Capability superset, least scarce first, then weighted deficit round robin.

Slots with the same useful capabilities (those that some lane asks for) and the same tenant binding form a group. A
need (capability set, and tenant where a tenant has slots of its own) sees its groups in tiers of equal scarcity:
the queued demand per slot for capabilities that the task itself does not need. Inside a tier the slot with the largest
deficit less its load per weight wins, ties by id. Scores only get worse inside a cycle, so heaps are repaired
lazily. When no fitting slot is free, an augmenting path moves this cycle's own assignments (maximum matching).
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any

from dispatch.core.types import MICRO, Id, Lane, Slot

SHARE_BITS = 32  # fraction bits of deficits while they are shared out
CLAMP_TIMES = 4  # deficits stay within this many times the largest measured cost

Score = tuple[int, Any]


class Place:
    """One session with free slots in this cycle."""

    __slots__ = ("deficit", "free", "group", "id", "load", "slot")

    def __init__(self, slot: Slot, deficit: int) -> None:
        self.slot = slot
        self.deficit = deficit
        self.id = slot.id
        self.free = slot.free
        self.load = slot.load
        self.group: Group

    def score(self) -> Score:
        """Smaller is better: load per weight less the deficit, then the id."""
        return (self.load * MICRO // self.slot.weight - self.deficit, self.id)


class Group:
    """Places with the same useful capabilities and tenant binding."""

    __slots__ = ("caps", "heap", "key", "placed", "places", "tenant")

    def __init__(self, key: Any, caps: frozenset[str], tenant: Id, places: list[Place]) -> None:
        self.key = key
        self.caps = caps
        self.tenant = tenant
        self.places = places
        self.heap: list[tuple[int, Any, Place]] = [(*p.score(), p) for p in places]
        heapify(self.heap)
        self.placed: dict[Need, list[int]] = {}
        for place in places:
            place.group = self

    def best(self) -> Place | None:
        """The free place with the best score now."""
        heap = self.heap
        while heap:
            entry = heap[0]
            place = entry[2]
            if place.free <= 0:
                heappop(heap)
                continue
            score = place.score()
            if score[0] != entry[0]:
                heapreplace(heap, (*score, place))
                continue
            return place
        return None


class Need:
    """What a lane asks of a slot. `blocked` once nothing fits for the rest of the cycle."""

    __slots__ = ("blocked", "caps", "groups", "tenant", "tiers")

    def __init__(self, caps: frozenset[str], tenant: Id) -> None:
        self.caps = caps
        self.tenant = tenant
        self.blocked = False
        self.groups: list[Group] = []
        self.tiers: list[list[tuple[int, Any, int, Group]]] = []

    def fits(self, group: Group) -> bool:
        """Capability superset, and the binding allows it."""
        return self.caps <= group.caps and (group.tenant is None or group.tenant == self.tenant)

    def best(self) -> Place | None:
        """The free place for this need: least scarce tier, best score."""
        tiers = self.tiers
        while tiers:
            heap = tiers[0]
            while heap:
                entry = heap[0]
                place = entry[3].best()
                if place is None:
                    heappop(heap)
                    continue
                score = place.score()
                if score[0] != entry[0] or score[1] != entry[1]:
                    heapreplace(heap, (*score, entry[2], entry[3]))
                    continue
                return place
            tiers.pop(0)
        return None


class Fleet:
    """The sessions with a free slot; those without count only as supply of their capabilities."""

    def __init__(self, slots: Sequence[Slot], lanes: Sequence[Lane], deficits: Mapping[Id, int]) -> None:
        queued: dict[frozenset[str], int] = {}
        for lane in lanes:
            queued[lane.caps] = queued.get(lane.caps, 0) + lane.queued
        useful = frozenset().union(*queued)
        self.bound = frozenset(slot.tenant for slot in slots if slot.tenant is not None)
        self.demand: dict[str, int] = {}
        for caps, count in queued.items():
            for cap in caps:
                self.demand[cap] = self.demand.get(cap, 0) + count
        self.offered: dict[str, int] = {}
        made: dict[tuple[frozenset[str], Id], list[Place]] = {}
        known: dict[frozenset[str], frozenset[str]] = {}
        for slot in slots:
            offers = known.get(slot.caps)
            if offers is None:
                offers = known[slot.caps] = slot.caps & useful
            for cap in offers:
                self.offered[cap] = self.offered.get(cap, 0) + slot.slots
            if slot.free > 0:
                made.setdefault((offers, slot.tenant), []).append(Place(slot, deficits.get(slot.worker, slot.deficit)))
        keyed = ((_group_key(caps, tenant), caps, tenant, places) for (caps, tenant), places in made.items())
        self.groups = [Group(*parts) for parts in sorted(keyed, key=lambda parts: parts[0])]
        self.needs: dict[tuple[frozenset[str], Id], Need] = {}

    def need(self, lane: Lane) -> Need:
        """The need of a lane, shared by all lanes that ask for the same."""
        return self.need_of(lane.caps, lane.tenant)

    def need_of(self, caps: frozenset[str], tenant: Id) -> Need:
        """The need of a tenant's tasks with these capabilities."""
        key = (caps, tenant if tenant in self.bound else None)
        need = self.needs.get(key)
        if need is None:
            need = self.needs[key] = self._need(*key)
        return need

    def _need(self, caps: frozenset[str], tenant: Id) -> Need:
        need = Need(caps, tenant)
        tiers: dict[tuple[int, bool], list[tuple[int, Any, int, Group]]] = {}
        for rank, group in enumerate(self.groups):
            if not need.fits(group):
                continue
            need.groups.append(group)
            place = group.best()
            if place is not None:
                key = (self.scarcity(group, caps), group.tenant is None)
                tiers.setdefault(key, []).append((*place.score(), rank, group))
        for key in sorted(tiers):
            heapify(tiers[key])
            need.tiers.append(tiers[key])
        return need

    def scarcity(self, group: Group, caps: frozenset[str]) -> int:
        """Queued demand per slot, in millionths, for what the group offers beyond `caps`."""
        return sum(self.demand[cap] * MICRO // max(1, self.offered[cap]) for cap in group.caps - caps)

    def find(self, need: Need, avoid: Id = None) -> Place | None:
        """The place for one task, another worker than `avoid` where there is one."""
        place = need.best()
        if place is None or avoid is None or place.slot.worker != avoid:
            return place
        others = [
            (self.scarcity(group, need.caps), group.tenant is None, *other.score(), other)
            for group in need.groups
            for other in group.places
            if other.free > 0 and other.slot.worker != avoid
        ]
        return min(others)[-1] if others else place


def fits(slot: Slot, caps: frozenset[str], tenant: Id) -> bool:
    """Whether a session may run a tenant's task with these capabilities at all."""
    return caps <= slot.caps and (slot.tenant is None or slot.tenant == tenant)


def _group_key(caps: frozenset[str], tenant: Id) -> tuple[Any, ...]:
    return (*sorted(caps), "", str(tenant))


def augmenting_path(need: Need) -> Iterator[tuple[Group, Need, Group]]:
    """Moves (from, whose, to), last group first, that free a place for `need`; empty when there are none.

    Breadth-first over groups: an assignment of this cycle may move to any group that fits its need (Berge: while no
    such path exists, the matching is maximum).
    """
    came: dict[int, tuple[Group, Need, Group]] = {}
    seen = {id(group) for group in need.groups}
    frontier = list(need.groups)
    for group in frontier:
        for other, placed in group.placed.items():
            if not placed:
                continue
            for target in other.groups:
                if id(target) in seen:
                    continue
                seen.add(id(target))
                came[id(target)] = (group, other, target)
                if target.best() is not None:
                    return _walk_back(came, target)
                frontier.append(target)
    return iter(())


def _walk_back(came: dict[int, tuple[Group, Need, Group]], target: Group) -> Iterator[tuple[Group, Need, Group]]:
    while id(target) in came:
        move = came[id(target)]
        yield move
        target = move[0]


def shared_deficits(groups: Sequence[Group], placed: Sequence[tuple[Need, Place, int]], cmax: int) -> dict[Id, int]:
    """New deficits per worker after these (need, place, cost) in order; changed ones only.

    Every place with a free slot and the capabilities gains cost * weight / sum, the chosen one pays the cost, so the
    sum stays; all are clamped to CLAMP_TIMES * cmax. Shared out per group with one accumulator, so an assignment
    costs O(groups).
    """
    credit = {id(group): 0 for group in groups}
    weight = {id(group): sum(p.slot.weight for p in group.places) for group in groups}
    left: dict[Id, int] = {}
    fine: dict[Id, int] = {}
    frozen: set[Id] = set()
    for need, place, cost in placed:
        total = sum(weight[id(group)] for group in need.groups)
        if total:
            part = (cost << SHARE_BITS) // total
            for group in need.groups:
                credit[id(group)] += part
            fine[place.id] = fine.get(place.id, 0) - part * total
        left[place.id] = left.get(place.id, place.slot.free) - 1
        if left[place.id] == 0:
            frozen.add(place.id)
            fine[place.id] = fine.get(place.id, 0) + credit[id(place.group)] * place.slot.weight
            weight[id(place.group)] -= place.slot.weight
    payer = placed[-1][1].slot.worker if placed else None
    return _whole_deficits(groups, credit, fine, frozen, CLAMP_TIMES * cmax, payer)


def _whole_deficits(
    groups: Sequence[Group],
    credit: dict[int, int],
    fine: dict[Id, int],
    frozen: set[Id],
    clamp: int,
    payer: Id,
) -> dict[Id, int]:
    """Deficits in whole micro-units; what rounding left over goes to the worker chosen last."""
    old: dict[Id, int] = {}
    new: dict[Id, int] = {}
    rest = 0
    for group in groups:
        gained = credit[id(group)]
        for place in group.places:
            slot = place.slot
            change = fine.get(place.id, 0)
            if gained and place.id not in frozen:
                change += gained * slot.weight
            old.setdefault(slot.worker, place.deficit)
            if change:
                whole = change >> SHARE_BITS
                rest += change - (whole << SHARE_BITS)
                new[slot.worker] = new.get(slot.worker, place.deficit) + whole
    if rest and payer is not None:
        new[payer] = new.get(payer, old[payer]) + ((rest + (1 << SHARE_BITS - 1)) >> SHARE_BITS)
    if clamp:
        new = {worker: min(max(deficit, -clamp), clamp) for worker, deficit in new.items()}
    return {worker: deficit for worker, deficit in new.items() if deficit != old[worker]}
