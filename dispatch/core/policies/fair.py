"""The fair policy: hierarchical virtual-time deficit round robin (docs/scheduling.md).

Tiers, strongest first, under the same hard limits:
R  tasks whose first agent was lost or stalled take up again the turn that their owner has been charged for;
P  lanes that waited longer than their class's max_wait, earliest deadline first, at most `promotion_slots` running;
G  classes below their effective minimum, smallest running/minimum first;
W  best (aged) level, then smallest virtual time of class, tenant (those below their nominal first) and user, then age.
In W a lane that needs what the chosen slot alone offers may go first while it is at most one task ahead of its turn.
"""

from heapq import heapify, heappop, heapreplace

from dispatch.core.cycle import Choice, Cycle
from dispatch.core.forest import Forest
from dispatch.core.lanes import Leaf
from dispatch.core.matching import Group, Need, Place
from dispatch.core.memory import Memory
from dispatch.core.preempt import yields
from dispatch.core.quota import NO_CLASS
from dispatch.core.shares import Branch, Share, TenantBranch, credit
from dispatch.core.types import MICRO, Head, Id, Plan, Snapshot

MAX_VIEWS = 64  # sets of lanes looked at through a scarce-slot window in one cycle


def plan(snapshot: Snapshot, memory: Memory) -> Plan:
    """One cycle of the fair policy. Changes `memory` inside its open transaction."""
    cycle = Cycle(snapshot, memory)
    cycle.run(FairOrder(cycle))
    started: dict[Id, int] = {}
    for placed in cycle.placed:
        started[placed.leaf.id] = started.get(placed.leaf.id, 0) + 1
    return cycle.plan(yields(cycle.snapshot, cycle.quotas, started))


class FairOrder:
    """Whose turn it is under the fair policy."""

    def __init__(self, cycle: Cycle) -> None:
        self.snapshot = cycle.snapshot
        self.quotas = cycle.quotas
        self.memory = cycle.memory
        self.forest = Forest(self.snapshot, self.memory, self.quotas, cycle.fleet)
        self.floors = [s for c, s in sorted(self.forest.classes.items()) if self.quotas.classes[c].emin > 0]
        self.returned = returned(self.forest)
        self.overdue = Overdue(self.forest) if self.snapshot.policy.promotion_slots > 0 else None
        self.fleet = cycle.fleet
        self.rivals: dict[tuple[int, int], list[Need]] = {}
        self.views: dict[tuple[frozenset[frozenset[str]], Id], Branch | None] = {}
        self.capsets = {lane.caps for lane in self.snapshot.lanes}
        self.cmax = self.memory.scalars.cmax

    def next(self) -> Choice | None:
        """The next lane: what was lost, then promotion, then guarantee, then weights."""
        lost = self._lost()
        if lost is not None:
            return Choice(lost, "R", 3)
        if self.overdue is not None and self.quotas.promoted < self.snapshot.policy.promotion_slots:
            leaf = self.overdue.next()
            if leaf is not None:
                return Choice(leaf, "P", 3)
        share = self._below_floor()
        if share is not None:
            return Choice(_descend(share.main), "G", 1)
        root = self.forest.root
        return Choice(_descend(root), "W", 0) if root.settle() else None

    def _lost(self) -> Leaf | None:
        while self.returned:
            leaf = self.returned[-1]
            if leaf.startable(self.quotas) and leaf.head().again:
                return leaf
            self.returned.pop()
        return None

    def _below_floor(self) -> Share | None:
        best, least = None, None
        for share in self.floors:
            count = self.quotas.classes[share.id]
            if count.run < count.emin and share.main.settle():
                key = (count.run * MICRO // count.emin, share.account.vt, share.id)
                if least is None or key < least:
                    best, least = share, key
        return best

    def start(self, choice: Choice, head: Head, cost: int) -> None:
        """Charge the path, note the starvation lane."""
        leaf = choice.leaf
        self.forest.charge(leaf, cost, choice.turn)
        lane = leaf.lane
        if self.snapshot.policy.classes.get(lane.work_class, NO_CLASS).max_wait is not None:
            path = self.memory.lane_path(lane.work_class, lane.tenant, lane.caps)
            self.memory.served(path, self.snapshot.now)

    def why(self, choice: Choice) -> tuple[int, Id]:
        """The deficit of the tenant in its class, and the lane of the class or tenant that was next in turn."""
        return choice.leaf.path[1].deficit(), _runner_up(self.forest.root, choice.leaf)

    def swap(self, choice: Choice, place: Place) -> Choice:
        """The scarce-slot window: another lane has no less scarce place than this one, and is nearly in turn."""
        leaf, group = choice.leaf, place.group
        if group.caps == leaf.need.caps:
            return choice
        wanted = self._wanted(leaf, group)
        other = self._needier(self._view(wanted, group.tenant), leaf.level, group) if wanted else None
        return choice if other is None else Choice(other, "W", 3)

    def _wanted(self, leaf: Leaf, group: Group) -> frozenset[frozenset[str]]:
        """Capability sets beyond the leaf's own whose best place is in this group now."""
        key = (id(group), id(leaf.need))
        needs = self.rivals.get(key)
        if needs is None:
            known = (self.fleet.need_of(caps, group.tenant) for caps in self.capsets)
            needs = self.rivals[key] = [n for n in known if n.caps <= group.caps and not n.caps <= leaf.need.caps]
        return frozenset(need.caps for need in needs if not need.blocked and _best_group(need) is group)

    def _view(self, wanted: frozenset[frozenset[str]], tenant: Id) -> Branch | None:
        key = (wanted, tenant)
        if key not in self.views:
            self.views[key] = self.forest.view(wanted, tenant) if len(self.views) < MAX_VIEWS else None
        return self.views[key]

    def _needier(self, view: Branch | None, level: int, group: Group) -> Leaf | None:
        """The least-served lane of a view that is at most one task ahead of its turn on every level."""
        best, least = None, None
        for entry in list(view.heap) if view else ():
            branch = entry[-1]
            if not branch.settle() or branch.level > level:
                continue
            tenant = branch.best
            user = tenant.best
            leaf = user.best
            steps = ((self.forest.root, branch), (branch.share.main, tenant), (tenant.share.main, user))
            if _best_group(leaf.need) is group and all(self._in_window(parent, child) for parent, child in steps):
                key = tuple(b.entry()[:-1] for b in (branch, tenant, user, leaf))
                if least is None or key < least:
                    best, least = leaf, key
        return best

    def _in_window(self, parent: Branch, child: Branch) -> bool:
        share, low = child.share, parent.low()
        if share.zero or low is None:
            return False
        if isinstance(child, TenantBranch) and parent.best is not None and child.rank()[0] > parent.best.rank()[0]:
            return False
        return share.account.vt <= low + credit(self.cmax, share.weight)

    def close(self) -> None:
        """Store what stays queued."""
        self.forest.close()


def returned(forest: Forest) -> list[Leaf]:
    """Lanes whose next task lost its first agent, the oldest last; no other lane is opened for them."""
    lanes = {lane.id: lane for lane in forest.snapshot.lanes if lane.heads[0].again}
    leaves: list[Leaf] = []
    for class_id, tenant in sorted({(lane.work_class, lane.tenant) for lane in lanes.values()}):
        for user in forest.users(forest.classes[class_id].kids[tenant]):
            leaves += [leaf for leaf in forest.leaves(user) if leaf.id in lanes]
    return sorted(leaves, key=lambda leaf: (leaf.head().enqueued_at, leaf.id), reverse=True)


class Overdue:
    """Starvation lanes (class, tenant, capability set) that waited longer than max_wait: earliest deadline first."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.now = forest.snapshot.now
        self.waits = {c: p.max_wait for c, p in forest.policy.classes.items() if p.max_wait is not None}
        self.lanes: dict[str, list[Leaf]] = {}
        for class_id in self.waits:
            above = forest.classes.get(class_id)
            for tenant in above.kids.values() if above else ():
                if tenant.oldest + self.waits[class_id] <= self.now:
                    for user in forest.users(tenant):
                        for leaf in forest.leaves(user):
                            path = forest.memory.lane_path(class_id, tenant.id, leaf.lane.caps)
                            self.lanes.setdefault(path, []).append(leaf)
        self.heap = [entry for path in self.lanes if (entry := self._entry(path)) is not None]
        heapify(self.heap)

    def _entry(self, path: str) -> tuple[int, str] | None:
        """When the lane became or becomes overdue, None while it is not."""
        leaves = self.lanes[path]
        oldest = min((leaf.oldest for leaf in leaves if leaf.pos < len(leaf.heads)), default=None)
        if oldest is None:
            return None
        start = max(oldest, self.forest.memory.lanes.get(path, 0))
        deadline = start + self.waits[leaves[0].lane.work_class]
        return (deadline, path) if deadline <= self.now else None

    def next(self) -> Leaf | None:
        """The leaf with the oldest startable task of the lane that is overdue longest."""
        heap = self.heap
        while heap:
            path = heap[0][1]
            entry = self._entry(path)
            leaves = [leaf for leaf in self.lanes[path] if leaf.startable(self.forest.quotas)]
            if entry is None or not leaves:
                heappop(heap)
            elif entry != heap[0]:
                heapreplace(heap, entry)
            else:
                return min(leaves, key=lambda leaf: (leaf.oldest, leaf.id))
        return None


def _best_group(need: Need) -> Group | None:
    place = need.best()
    return None if place is None else place.group


def _descend(branch: Branch) -> Leaf:
    """Follow the chosen children down to the lane; `branch` has just settled."""
    child = branch.best
    while not isinstance(child, Leaf):
        child = child.best
    return child


def _runner_up(root: Branch, chosen: Leaf) -> Id:
    """The lane that is next in turn beside the chosen one: of another class, else tenant, else user, else lane."""
    branch = root
    for share in (*chosen.path, None):
        heap = branch.heap
        below = heap[0][-1]
        if below is chosen or (share is not None and below.share is share):
            below = min(heap[1:3], key=lambda entry: entry[:-1])[-1] if len(heap) > 1 else None
        if below is not None and below.settle():
            return below.id if isinstance(below, Leaf) else _descend(below).id
        if share is None:
            break
        branch = share.main if share is not chosen.path[2] else branch.best
        if not isinstance(branch, Branch) or not branch.heap:
            break
    return None
