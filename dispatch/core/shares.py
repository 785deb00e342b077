"""Whose turn: virtual time on the tree root → class → tenant → user → lane, repaired lazily.

Every charge moves the virtual time of the nodes on a task's path by cost / weight; the smallest goes first. Inside a
cycle every sort key only grows and whatever became ineligible stays so, so each heap entry is a lower bound: the top
is recomputed when it is looked at, pushed down when it grew, dropped when nothing startable is left below it. A pick
costs O(log siblings) per level.
Sources: SFQ (Goyal 1996) for start-time order and V; SFQ(D) for several slots; VTC's lift against saved-up credit.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heapreplace
from typing import Any

from dispatch.core.cost import SCALE
from dispatch.core.lanes import Leaf
from dispatch.core.memory import Account, Memory
from dispatch.core.quota import ClassCount, Count, Quotas
from dispatch.core.types import MICRO, Id, Lane


class Share:
    """One node of the tree in this cycle: its account, weight and count. `lanes` wait there until its turn is near."""

    __slots__ = (
        "above",
        "account",
        "count",
        "id",
        "kids",
        "lanes",
        "leaves",
        "level",
        "main",
        "nominal",
        "oldest",
        "queued",
        "started",
        "weight",
        "zero",
    )

    def __init__(
        self, key: Id, account: Account, weight: int, count: Count, above: "Share | None", nominal: int = 0
    ) -> None:
        self.id = key
        self.above = above
        self.account = account
        self.zero = weight == 0
        self.weight = weight or MICRO
        self.count = count
        self.nominal = nominal
        self.kids: dict[Id, Share] = {}
        self.lanes: list[Lane] = []
        self.leaves: list[Leaf] | None = None
        self.level = 1
        self.oldest = 1 << 62
        self.queued = 0
        self.started = 0
        self.main: Branch

    def deficit(self) -> int:
        """What the node is owed in micro-units of cost: weight * (clock of its parent - virtual time)."""
        parent = self.account.parent
        assert parent is not None, "only the root has no parent, and it has no share"
        clock = parent.z if self.zero else parent.v
        return (clock - self.account.vt) * self.weight // SCALE


class Branch:
    """One node of a view of the tree: a heap of its children. The main view holds every lane, others only some."""

    __slots__ = ("best", "heap", "level", "mixed", "share", "times")

    def __init__(self, share: Share, level: int = 1) -> None:
        self.share = share
        self.level = level
        self.heap: list[Any] = []
        self.best: Any = None
        self.mixed = False
        self.times: list[tuple[int, Id, Branch]] | None = None

    def settle(self) -> bool:
        """Whether something startable is left below; `best` and `level` are true afterwards."""
        return self.top() is not None

    def entry(self) -> tuple[Any, ...]:
        """The sort key of this node among its siblings, itself last."""
        raise NotImplementedError

    def top(self) -> Any:
        """The child whose turn it is, None when nothing below may start."""
        heap = self.heap
        while heap:
            old = heap[0]
            child = old[-1]
            new = child.entry()
            if new != old:  # cheap to see, before anything below is looked at
                heapreplace(heap, new)
                continue
            level = child.level
            if not child.settle():
                heappop(heap)
            elif child.level != level:
                heapreplace(heap, child.entry())
            else:
                self.best = child
                self.level = level
                return child
        return None

    def low(self) -> int | None:
        """The smallest virtual time of the startable children with a weight; None without such a child."""
        if not self.mixed:
            top = self.top()
            return None if top is None or top.share.zero else top.share.account.vt
        if self.times is None:
            self.times = [(e[-1].share.account.vt, e[-1].share.id, e[-1]) for e in self.heap if not e[-1].share.zero]
            heapify(self.times)
        times = self.times
        while times:
            vt, key, child = times[0]
            if not child.settle():
                heappop(times)
            elif child.share.account.vt != vt:
                heapreplace(times, (child.share.account.vt, key, child))
            else:
                return vt
        return None


class ClassBranch(Branch):
    """A class in a view. Order: best level, weight before no weight, virtual time, oldest head, id."""

    __slots__ = ("count", "quotas")

    def __init__(self, share: Share, quotas: Quotas, count: ClassCount) -> None:
        super().__init__(share, share.level)
        self.quotas = quotas
        self.count = count

    def settle(self) -> bool:
        return self.quotas.class_open(self.count) and self.top() is not None

    def entry(self) -> tuple[Any, ...]:
        share = self.share
        return (self.level, 2 if share.zero else 1, 0, share.account.vt, share.oldest, share.id, self)


class Deferred(Branch):
    """A node whose children are made by `fill` when its turn comes near."""

    __slots__ = ("fill",)

    def __init__(self, share: Share, fill: Callable[["Deferred"], None]) -> None:
        super().__init__(share, share.level)
        self.fill: Callable[[Deferred], None] | None = fill

    def settle(self) -> bool:
        count = self.share.count
        if count.run >= count.cap:
            return False
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
        return self.top() is not None


class TenantBranch(Deferred):
    """A tenant of a class in a view. Below its nominal it goes first, smallest running/nominal; then as a class."""

    __slots__ = ()

    def rank(self) -> tuple[int, int]:
        """0 and the part of its nominal that runs, 1 with a weight, 2 without."""
        share = self.share
        if share.count.run < share.nominal:
            return (0, share.count.run * MICRO // share.nominal)
        return (2 if share.zero else 1, 0)

    def entry(self) -> tuple[Any, ...]:
        share = self.share
        if share.nominal:
            return (self.level, *self.rank(), share.account.vt, share.oldest, share.id, self)
        return (self.level, 2 if share.zero else 1, 0, share.account.vt, share.oldest, share.id, self)


class UserBranch(Deferred):
    """A user of a tenant in a view. Order: best level, weight before no weight, virtual time, oldest head, id."""

    __slots__ = ()

    def entry(self) -> tuple[Any, ...]:
        share = self.share
        return (self.level, 2 if share.zero else 1, 0, share.account.vt, share.oldest, share.id, self)


def credit(cmax: int, weight: int) -> int:
    """The virtual time that one largest measured task is worth at this weight: the bound of credit and window."""
    return cmax * SCALE // weight


def wake(memory: Memory, siblings: Iterable[Share], cmax: int, fade: int | None) -> None:
    """Upkeep of the children of one node that have queued work.

    One that becomes active starts at the clock: no credit, debt kept. One stopped by its limit keeps at most the credit
    of one largest task. Those behind the clock although their limits are open wait for scarce slots while the clock
    runs on other slots: they are moved up together, because each on its own would lose turn and weight among them (one
    task of credit is worth more time the smaller the weight). Debt beyond one task fades: `fade` in units of 2^-40
    stays; None: not now.
    """
    behind: list[tuple[int, int, Share]] = []
    for share in siblings:
        account = share.account
        parent = account.parent
        assert parent is not None, "the root is nobody's sibling"
        clock = parent.z if share.zero else parent.v
        vt = account.vt
        bound = credit(cmax, share.weight) if account.active else 0
        if vt < clock:
            if account.active and share.count.run < share.count.cap:
                behind.append((clock - bound - vt, bound, share))
            elif vt < clock - bound:
                memory.touch(account)
                account.vt = clock - bound
        elif account.active and fade is not None and vt > clock + bound:
            memory.touch(account)
            account.vt = clock + bound + ((vt - clock - bound) * fade >> 40)
    if behind:
        _move_up(memory, behind)


def _move_up(memory: Memory, behind: list[tuple[int, int, Share]]) -> None:
    """The one least behind keeps its one task of credit, the others their distance to it, up to two largest tasks."""
    least = max(0, min(lag for lag, _, _ in behind))
    most = 2 * max(bound for _, bound, _ in behind)
    for lag, _, share in behind:
        step = lag - min(lag - least, most)
        if step > 0:
            memory.touch(share.account)
            share.account.vt += step


def sleep(memory: Memory, account: Account) -> None:
    """A node has no queued work any more, nor has anything below it."""
    for kid in account.kids.values():
        if kid.active:
            sleep(memory, kid)
    memory.touch(account)
    account.active = False


def charge(memory: Memory, share: Share, cost: int) -> None:
    """Move a node's virtual time by cost / weight; negative costs are refunds."""
    memory.touch(share.account)
    share.account.vt += cost * SCALE // share.weight
