"""A lane inside one cycle: which head is next, and whether it may start now."""

from typing import TYPE_CHECKING

from dispatch.core.aging import effective_level
from dispatch.core.matching import Need
from dispatch.core.quota import NO_CLASS, ClassCount, Count, Purse, Quotas
from dispatch.core.types import Head, Id, Lane

if TYPE_CHECKING:
    from dispatch.core.shares import Share


class Leaf:
    """The queued tasks of one lane. `path` holds the shares (class, tenant, user) that are charged for it."""

    __slots__ = (
        "_level",
        "_step",
        "broke",
        "counts",
        "heads",
        "id",
        "klass",
        "lane",
        "level",
        "narrow",
        "need",
        "now",
        "oldest",
        "path",
        "pos",
        "purses",
        "taken",
    )

    def __init__(self, lane: Lane, need: Need, quotas: Quotas) -> None:
        policy = quotas.policy.classes.get(lane.work_class, NO_CLASS)
        self.lane = lane
        self.id: Id = lane.id
        self.need = need
        self.heads = lane.heads
        self.pos = 0
        self.taken: set[Id] | None = None
        self.klass: ClassCount = quotas.of_class(lane.work_class)
        self.narrow: tuple[Count, ...] = quotas.narrow(lane)
        self.counts = (quotas.of_tenant(lane.tenant), quotas.of_user(lane.tenant, lane.user), *self.narrow)
        self.purses: tuple[Purse, ...] = quotas.purses_of(lane)
        self.broke = False
        self._level = policy.level
        self._step = policy.aging_step
        self.now = quotas.now
        self.path: tuple[Share, ...] = ()
        self._age()

    def _age(self) -> None:
        """Find the oldest startable task and the level that it has reached. Both only get worse inside a cycle."""
        oldest = self.lane.oldest
        if oldest is not None and not (self.taken and oldest.id in self.taken):
            self.oldest = oldest.enqueued_at
        elif self.pos >= len(self.heads):
            return
        elif oldest is None:
            self.oldest = self.heads[self.pos].enqueued_at
        else:
            taken = self.taken or ()
            self.oldest = min(h.enqueued_at for h in self.heads[self.pos :] if h.id not in taken)
        self.level = effective_level(self._level, self._step, self.now - self.oldest)

    def entry(self) -> tuple[int, int, Id, "Leaf"]:
        """Its place among the lanes of one user: best level, then oldest, then id."""
        return (self.level, self.oldest, self.id, self)

    def settle(self) -> bool:
        """Whether a head is left, its tools and its tenant's part of the class allow one more and a slot may fit."""
        if self.need.blocked or self.broke or self.pos >= len(self.heads):
            return False
        return all(count.run < count.cap for count in self.narrow) if self.narrow else True

    def startable(self, quotas: Quotas) -> bool:
        """Whether its next task may start now, all limits asked."""
        return self.settle() and all(c.run < c.cap for c in self.counts) and quotas.class_open(self.klass)

    def head(self, promote: bool = False) -> Head:
        """The next task in lane order, or the oldest startable one for a promotion."""
        oldest = self.lane.oldest
        if promote and oldest is not None and not (self.taken and oldest.id in self.taken):
            return oldest
        return self.heads[self.pos]

    def affords(self, cost: int) -> bool:
        """Whether its cost budgets have so much left; else the lane waits for the rest of the cycle."""
        for purse in self.purses:
            if purse.left < cost:
                purse.refused = self.broke = True
        return not self.broke

    def take(self, head: Head) -> None:
        """Count `head` as started."""
        heads = self.heads
        if self.lane.oldest is None:
            self.pos += 1
        else:
            if self.taken is None:
                self.taken = set()
            self.taken.add(head.id)
            while self.pos < len(heads) and heads[self.pos].id in self.taken:
                self.pos += 1
        self._age()
