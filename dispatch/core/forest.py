"""The share tree of one cycle: built from the lanes, opened tenant by tenant, closed with what stays queued.

`path` order is in one place here: class → tenant → user. A tenant's users and lanes are looked at only when the
tenant's turn comes near, so a cycle costs O(lanes) for grouping and O(log) per pick.
"""

from collections.abc import Iterable
from functools import partial
from heapq import heapify

from dispatch.core.aging import effective_level, fading
from dispatch.core.lanes import Leaf
from dispatch.core.matching import Fleet
from dispatch.core.memory import Account, Memory
from dispatch.core.quota import NO_CLASS, NO_TENANT, NO_USER, UNLIMITED, ClassCount, Count, Quotas
from dispatch.core.shares import Branch, ClassBranch, Deferred, Share, TenantBranch, UserBranch, charge, sleep, wake
from dispatch.core.types import MICRO, Id, Lane, Snapshot

FADE_STEPS = 64  # debts fade in steps of 1/64 of the half-life, so that few accounts change in a cycle
SWEEP_CYCLES = 1024  # accounts that no longer matter are dropped every so many cycles
LANE_KEPT = 24 * 3600 * MICRO  # the last dispatch of an empty starvation lane is kept this long


class Forest:
    """All shares of one cycle and the main view over them."""

    def __init__(self, snapshot: Snapshot, memory: Memory, quotas: Quotas, fleet: Fleet) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.memory = memory
        self.quotas = quotas
        self.fleet = fleet
        self.cmax = memory.scalars.cmax
        self.fade = self._fade()
        self.top = Share("root", memory.root, MICRO, Count(UNLIMITED), None)
        self.classes: dict[Id, Share] = {}
        self._group(snapshot.lanes)
        self._wake_up()
        self.root = self.view(None)

    def _fade(self) -> int | None:
        scalars, halflife, now = self.memory.scalars, self.policy.debt_halflife, self.snapshot.now
        elapsed = now - scalars.faded_at
        if not halflife or not scalars.faded_at:
            scalars.faded_at = now
            return None
        if elapsed * FADE_STEPS < halflife:
            return None
        scalars.faded_at = now
        return fading(elapsed, halflife)

    # Building

    def _group(self, lanes: Iterable[Lane]) -> None:
        tenants: dict[tuple[Id, Id], Share] = {}
        for lane in lanes:
            key = (lane.work_class, lane.tenant)
            share = tenants.get(key)
            if share is None:
                share = tenants[key] = self._tenant(lane.work_class, lane.tenant)
            share.lanes.append(lane)
            share.queued += lane.queued
            head = lane.oldest or lane.heads[0]
            if head.enqueued_at < share.oldest:
                share.oldest = head.enqueued_at

    def _class(self, class_id: Id) -> Share:
        share = self.classes.get(class_id)
        if share is None:
            policy = self.policy.classes.get(class_id, NO_CLASS)
            account = self.memory.child(self.memory.root, "c", class_id)
            share = self.classes[class_id] = Share(
                class_id, account, policy.weight, self.quotas.of_class(class_id), self.top
            )
        return share

    def _tenant(self, class_id: Id, tenant: Id) -> Share:
        above = self._class(class_id)
        policy = self.policy.tenants.get(tenant, NO_TENANT)
        account = self.memory.child(above.account, "t", tenant)
        share = Share(tenant, account, policy.weight, self.quotas.of_tenant(tenant), above, policy.nominal)
        above.kids[tenant] = share
        return share

    def _wake_up(self) -> None:
        """Levels and upkeep, top down: a parent's clock first."""
        now = self.snapshot.now
        for above in self.classes.values():
            policy = self.policy.classes.get(above.id, NO_CLASS)
            above.level = policy.level
            for share in above.kids.values():
                above.queued += share.queued
                above.oldest = min(above.oldest, share.oldest)
                share.level = effective_level(policy.level, policy.aging_step, now - share.oldest)
                above.level = min(above.level, share.level)
        wake(self.memory, self.classes.values(), self.cmax, self.fade)
        for above in self.classes.values():
            wake(self.memory, above.kids.values(), self.cmax, self.fade)
            _sleepers(self.memory, above.account, above.kids.values())
        _sleepers(self.memory, self.memory.root, self.classes.values())

    def users(self, tenant: Share) -> Iterable[Share]:
        """The users of one tenant in one class, woken, each with its lanes."""
        kids = tenant.kids
        if not kids:
            for lane in tenant.lanes:
                user = kids.get(lane.user)
                if user is None:
                    user = kids[lane.user] = self._user(tenant, lane.user)
                user.lanes.append(lane)
                user.queued += lane.queued
                head = lane.oldest or lane.heads[0]
                if head.enqueued_at < user.oldest:
                    user.oldest = head.enqueued_at
            wake(self.memory, kids.values(), self.cmax, self.fade)
            _sleepers(self.memory, tenant.account, kids.values())
        return kids.values()

    def _user(self, tenant: Share, user: Id) -> Share:
        policy = self.policy.users.get((tenant.id, user), NO_USER)
        account = self.memory.child(tenant.account, "u", user)
        share = Share(user, account, policy.weight, self.quotas.of_user(tenant.id, user), tenant)
        share.level = tenant.level
        return share

    def leaves(self, user: Share) -> list[Leaf]:
        """The lanes of one user of one tenant in one class."""
        if user.leaves is None:
            tenant = user.above
            assert tenant is not None and tenant.above is not None, "a user has a tenant, a tenant a class"
            user.leaves = [Leaf(lane, self.fleet.need(lane), self.quotas) for lane in user.lanes]
            path = (tenant.above, tenant, user)
            for leaf in user.leaves:
                leaf.path = path
        return user.leaves

    def view(self, wanted: frozenset[frozenset[str]] | None, tenant: Id = None) -> Branch:
        """A tree of heaps over all lanes, or over those with these capability sets (and of this tenant)."""
        root = Branch(self.top)
        levels = {share.level for share in self.classes.values()}
        root.mixed = len(levels) > 1 or any(self._aging(c) or s.zero for c, s in self.classes.items())
        for class_id, share in self.classes.items():
            count = share.count
            assert isinstance(count, ClassCount)
            branch = ClassBranch(share, self.quotas, count)
            branch.mixed = self._aging(class_id) or any(s.nominal or s.zero for s in share.kids.values())
            for kid in share.kids.values():
                if wanted is None or (
                    (tenant is None or tenant == kid.id) and any(lane.caps in wanted for lane in kid.lanes)
                ):
                    below = TenantBranch(kid, partial(self._fill_tenant, wanted))
                    branch.heap.append(below.entry())
                    if wanted is None:
                        kid.main = below
            if wanted is None:
                share.main = branch
            if branch.heap:
                heapify(branch.heap)
                root.heap.append(branch.entry())
        heapify(root.heap)
        return root

    def _aging(self, class_id: Id) -> bool:
        return self.policy.classes.get(class_id, NO_CLASS).aging_step is not None

    def _fill_tenant(self, wanted: frozenset[frozenset[str]] | None, branch: Deferred) -> None:
        tenant = branch.share
        assert tenant.above is not None, "a tenant has a class"
        fill = partial(self._fill_user, wanted)
        branch.mixed = self._aging(tenant.above.id)
        for user in self.users(tenant):
            if wanted is None or any(lane.caps in wanted for lane in user.lanes):
                branch.mixed = branch.mixed or user.zero
                branch.heap.append(UserBranch(user, fill).entry())
        heapify(branch.heap)

    def _fill_user(self, wanted: frozenset[frozenset[str]] | None, branch: Deferred) -> None:
        leaves = self.leaves(branch.share)
        branch.heap = [leaf.entry() for leaf in leaves if wanted is None or leaf.lane.caps in wanted]
        heapify(branch.heap)

    # Charging and closing

    def charge(self, leaf: Leaf, cost: int, turn: int) -> None:
        """Move the clocks and virtual times on a leaf's path. From depth `turn` on each node was its parent's top."""
        memory = self.memory
        parent = self.root
        account = memory.root
        for depth, share in enumerate(leaf.path):
            if share.zero:
                if share.account.vt > account.z:
                    memory.touch(account)
                    account.z = share.account.vt
            else:
                low = share.account.vt if depth >= turn and not parent.mixed else parent.low()
                if low is not None and low > account.v:
                    memory.touch(account)
                    account.v = low
            if depth < 2:
                parent = share.main
                account = share.account
        for share in leaf.path:
            charge(memory, share, cost)
            share.started += 1

    def close(self) -> None:
        """Active flags for the next cycle; a parent without queued work below levels its children's credit."""
        memory = self.memory
        for above in self.classes.values():
            for tenant in above.kids.values():
                for user in tenant.kids.values():
                    _set_active(memory, user)
                if _set_active(memory, tenant):
                    continue
                _level(memory, tenant.account)
            if not _set_active(memory, above):
                _level(memory, above.account)
        if not any(share.queued > share.started for share in self.classes.values()):
            _level(memory, memory.root)
        memory.scalars.cycle += 1
        if memory.scalars.cycle % SWEEP_CYCLES == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Forget idle accounts at or below their parent's clock (coming back would lift them there anyway)."""
        running = {f"c{load.work_class}/t{load.tenant}/u{load.user}" for load in self.snapshot.loads if load.running}
        tenants = {path.rsplit("/", 1)[0] for path in running}
        for above in list(self.memory.root.kids.values()):
            for tenant in list(above.kids.values()):
                for user in list(tenant.kids.values()):
                    if not user.active and user.vt <= tenant.v and user.path not in running:
                        self.memory.forget(user)
                if not (tenant.active or tenant.kids or tenant.vt > above.v or tenant.path in tenants):
                    self.memory.forget(tenant)
        limit = self.snapshot.now - LANE_KEPT
        for path, last in list(self.memory.lanes.items()):
            if last < limit:
                self.memory.forget_lane(path)


def _sleepers(memory: Memory, account: Account, awake: Iterable[Share]) -> None:
    present = {share.account.path for share in awake}
    for kid in account.kids.values():
        if kid.active and kid.path not in present:
            sleep(memory, kid)


def _set_active(memory: Memory, share: Share) -> bool:
    active = share.queued > share.started
    if active != share.account.active:
        memory.touch(share.account)
        share.account.active = active
    return active


def _level(memory: Memory, account: Account) -> None:
    """Nobody below waits: the clock catches up with the last one served, so nobody comes back with credit or debt."""
    clock = max((kid.vt for kid in account.kids.values()), default=account.v)
    if clock > account.v:
        memory.touch(account)
        account.v = clock
