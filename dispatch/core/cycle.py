"""One dispatch cycle: settle what ended, then pick, place, charge and count until nothing startable fits.

    cycle = Cycle(snapshot, memory)        # 0 settle, 1 capacity
    cycle.run(order)                       # 2 upkeep by the order, 3 the loop, 4 close
    plan = cycle.plan(yields)              # 5 deficits, 6 yields

The order (a policy) says whose turn it is; limits, placement and augmenting paths are the same for every policy.
Pure: the same snapshot and memory give the same plan, whatever the order of the input. The memory is changed inside
its own transaction (memory.py). Work: O(lanes) to group, O(log) per pick, O(groups) per deficit.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from dispatch.core.cost import ANY_TENANT, ANY_TYPE, MAX_TYPES, SCALE, Learned, charge_for
from dispatch.core.lanes import Leaf
from dispatch.core.matching import Fleet, Need, Place, augmenting_path, shared_deficits
from dispatch.core.memory import Account, Memory
from dispatch.core.quota import NO_CLASS, NO_TENANT, NO_USER, Quotas
from dispatch.core.types import MICRO, Assignment, Ended, Head, Id, Pick, Plan, Policy, Running, Snapshot

DRIFT_PART = 8  # stored worker deficits may be off by this part of the largest measured task
MAX_PICKS = 200  # decisions recorded per cycle
OVERRUN_PART = 16  # an overrun is charged in steps of a sixteenth of the charge


class Choice:
    """Whose turn it is. `turn` is the depth from which the path was chosen in turn (forest.charge)."""

    __slots__ = ("leaf", "tier", "turn")

    def __init__(self, leaf: Leaf, tier: str, turn: int) -> None:
        self.leaf = leaf
        self.tier = tier
        self.turn = turn


class Order(Protocol):
    """What a policy adds to the cycle."""

    def next(self) -> Choice | None:
        """Whose turn it is; None when nothing startable is left."""

    def swap(self, choice: Choice, place: Place) -> Choice:
        """The same choice, or one that needs this place more."""

    def start(self, choice: Choice, head: Head, cost: int) -> None:
        """Charge an assignment, before it is counted."""

    def why(self, choice: Choice) -> tuple[int, Id]:
        """Deficit of the chosen one before the charge, and the lane that was next in turn."""

    def close(self) -> None:
        """The loop is over."""


class Placed:
    """One assignment while it may still be moved by an augmenting path."""

    __slots__ = ("cost", "head", "leaf", "place", "tier")

    def __init__(self, leaf: Leaf, head: Head, place: Place, cost: int, tier: str) -> None:
        self.leaf = leaf
        self.head = head
        self.place = place
        self.cost = cost
        self.tier = tier


class Cycle:
    """The state of one cycle."""

    def __init__(self, snapshot: Snapshot, memory: Memory) -> None:
        self.snapshot = replace(snapshot, lanes=tuple(lane for lane in snapshot.lanes if lane.heads))
        self.memory = memory
        self.overruns = settle(snapshot, memory)
        self.quotas = Quotas(snapshot)
        self.fleet = Fleet(snapshot.slots, self.snapshot.lanes, memory.deficits)
        self.placed: list[Placed] = []
        self.picks: list[Pick] = []
        self._prices: dict[tuple[Id, Id, str], tuple[Learned | None, int]] = {}

    def run(self, order: Order) -> None:
        """Assign until no room or nothing startable is left."""
        quotas, fleet, memory = self.quotas, self.fleet, self.memory
        while quotas.room > 0:
            choice = order.next()
            if choice is None:
                break
            leaf, promote = choice.leaf, choice.tier == "P"
            head = leaf.head(promote)
            if leaf.purses and not leaf.affords(self.price(leaf, head)):
                continue
            place = fleet.find(leaf.need, head.avoid) or self._augment(leaf.need)
            if place is None:
                leaf.need.blocked = True
                continue
            if choice.tier == "W":
                other = order.swap(choice, place)
                if other is not choice and self._affords(other.leaf):
                    choice, leaf = other, other.leaf
                    head = leaf.head()
                    place = fleet.find(leaf.need, head.avoid)
                    assert place is not None, "the window offers only lanes that this place fits"
            cost = self.price(leaf, head)
            if len(self.picks) < MAX_PICKS:
                deficit, runner_up = order.why(choice)
                lanes = len(self.snapshot.lanes)
                self.picks.append(Pick(head.id, place.id, choice.tier, lanes, deficit, runner_up))
            order.start(choice, head, cost)
            leaf.take(head)
            for purse in leaf.purses:
                purse.left -= cost
            quotas.start(leaf.klass, leaf.counts)
            if promote:
                quotas.promoted += 1
            self._put(Placed(leaf, head, place, cost, choice.tier))
        order.close()
        memory.scalars.cycle_at = self.snapshot.now

    def _affords(self, leaf: Leaf) -> bool:
        return not leaf.purses or leaf.affords(self.price(leaf, leaf.head()))

    def price(self, leaf: Leaf, head: Head) -> int:
        """The charge of one task."""
        lane = leaf.lane
        key = (lane.work_class, lane.tenant, head.type)
        known = self._prices.get(key)
        if known is None:
            known = self._prices[key] = known_costs(self.snapshot.policy, self.memory, key)
        return charge_for(head.est, known[0], known[1], self.snapshot.policy.max_task_cost)

    def _put(self, placed: Placed) -> None:
        place = placed.place
        place.free -= 1
        place.load += placed.cost
        place.group.placed.setdefault(placed.leaf.need, []).append(len(self.placed))
        self.placed.append(placed)

    def _augment(self, need: Need) -> Place | None:
        """Free a place for `need` by moving this cycle's own assignments; None when that is impossible."""
        freed: Place | None = None
        for group, whose, target in augmenting_path(need):
            to = target.best() if freed is None else freed
            assert to is not None, "an augmenting path ends at a free place"
            index = group.placed[whose].pop()
            placed = self.placed[index]
            freed = placed.place
            freed.load -= placed.cost
            freed.free += 1
            to.load += placed.cost
            to.free -= 1
            placed.place = to
            to.group.placed.setdefault(whose, []).append(index)
        return freed

    def plan(self, yields: tuple[Id, ...] = ()) -> Plan:
        """The outcome, deficits shared out in the order of the assignments."""
        return Plan(
            assignments=tuple(
                Assignment(p.head.id, p.leaf.id, p.place.id, p.place.slot.worker, p.cost, p.tier) for p in self.placed
            ),
            yields=yields,
            overruns=self.overruns,
            deficits=self._deficits(),
            picks=tuple(self.picks),
            refused_by=self.quotas.refused_by(),
        )

    def _deficits(self) -> dict[Id, int]:
        """Deficits to store: those of the chosen workers, and others that moved a good part of a task since stored.

        Every competitor's deficit changes with every assignment; the memory has them all exactly. A new leader starts
        from the stored ones, less than 1/DRIFT_PART of the largest task off.
        """
        memory, cmax = self.memory, self.memory.scalars.cmax
        new = shared_deficits(self.fleet.groups, [(p.leaf.need, p.place, p.cost) for p in self.placed], cmax)
        stored = {slot.worker: slot.deficit for slot in self.snapshot.slots}
        memory.deficits = {
            worker: new.get(worker, memory.deficits.get(worker, deficit)) for worker, deficit in stored.items()
        }
        chosen = {p.place.slot.worker for p in self.placed}
        drift = cmax // DRIFT_PART
        return {w: d for w, d in new.items() if w in chosen or abs(d - stored[w]) > drift}


# Prices


def known_costs(policy: Policy, memory: Memory, key: tuple[Id, Id, str]) -> tuple[Learned | None, int]:
    """What tasks of a (class, tenant, type) have cost, and the cost of one about which nothing is known."""
    learned = memory.learned.get(key) or memory.learned.get((key[0], key[1], ANY_TYPE))
    default = policy.classes.get(key[0], NO_CLASS).default_cost
    if default is None:
        peer = memory.learned.get((key[0], ANY_TENANT, ANY_TYPE))
        default = peer.mean if peer else memory.scalars.cmax or MICRO
    return learned, default


# Settling


def settle(snapshot: Snapshot, memory: Memory) -> dict[Id, int]:
    """Correct the accounts by what ended and by what overruns its charge; learn costs. Returns task → new charge."""
    policy = snapshot.policy
    order = attrgetter("work_class", "tenant", "user", "type", "charged", "actual", "completed")
    for ended in sorted(snapshot.ended, key=lambda e: (*order(e), -1 if e.hint is None else e.hint)):
        correct(snapshot, memory, ended, ended.actual - ended.charged)
        if ended.completed:
            learn(memory, ended, policy.max_task_cost)
    overruns: dict[Id, int] = {}
    for task in snapshot.running:
        if task.cost > task.charged + task.charged // OVERRUN_PART:
            correct(snapshot, memory, task, task.cost - task.charged)
            overruns[task.id] = task.cost
    return overruns


def correct(snapshot: Snapshot, memory: Memory, of: Ended | Running, cost: int) -> None:
    """Move the virtual times of a task's path by a difference of cost."""
    policy = snapshot.policy
    weights = (
        policy.classes.get(of.work_class, NO_CLASS).weight,
        policy.tenants.get(of.tenant, NO_TENANT).weight,
        policy.users.get((of.tenant, of.user), NO_USER).weight,
    )
    account: Account = memory.root
    for kind, key, weight in zip("ctu", (of.work_class, of.tenant, of.user), weights, strict=True):
        account = memory.child(account, kind, key)
        memory.touch(account)
        account.vt += cost * SCALE // (weight or MICRO)


def learn(memory: Memory, ended: Ended, max_task_cost: int | None) -> None:
    """Take a completed task's cost into the owner's, the class's and the pool's history."""
    actual, hint = max(0, ended.actual), ended.hint
    if hint is not None and max_task_cost is not None:
        hint = min(hint, max_task_cost)
    memory.scalars.cmax = max(memory.scalars.cmax - memory.scalars.cmax // 1000, actual)
    keys = [
        (ended.work_class, ANY_TENANT, ANY_TYPE),
        (ended.work_class, ended.tenant, ANY_TYPE),
        (ended.work_class, ended.tenant, ended.type),
    ]
    for key in keys:
        learned = memory.learning(key, MAX_TYPES)
        if learned is not None:
            learned.learn(actual, hint)
