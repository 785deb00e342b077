"""An independent judge of one plan: counts everything again, from the snapshot and the assignments alone."""

from collections import Counter

from dispatch.core.types import Lane, Plan, Policy, Snapshot

FREE = 1 << 60


class Judge:
    """What runs after a plan, against every limit. `limit` names the first limit that one more task would break."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.policy: Policy = snapshot.policy
        self.lanes = {lane.id: lane for lane in snapshot.lanes}
        self.run: Counter[object] = Counter()
        for load in snapshot.loads:
            for key in self.keys(load.work_class, load.tenant, load.user, load.tools):
                self.run[key] += load.running
        self.free = {slot.id: slot.free for slot in snapshot.slots}
        self.before = Counter(self.run)
        for a in plan.assignments:
            lane = self.lanes[a.lane]
            self.free[a.session] -= 1
            for key in self.keys(lane.work_class, lane.tenant, lane.user, lane.tools):
                self.run[key] += 1
        self.started = Counter(a.lane for a in plan.assignments)
        self.refused_by = plan.refused_by

    @staticmethod
    def keys(work_class, tenant, user, tools):
        own = [("c", work_class), ("t", tenant), ("p", tenant, work_class), ("u", tenant, user)]
        return ["all", *own, *(("k", tool) for tool in tools)]

    def cap(self, key) -> int:
        p = self.policy
        if key == "all":
            return 0 if p.paused else FREE if p.budget is None else p.budget
        match key[0]:
            case "c":
                c = p.classes.get(key[1])
                return FREE if c is None else 0 if c.paused else FREE if c.max is None else c.max
            case "t":
                return self.tenant_cap(p.tenants.get(key[1]))
            case "p":
                t = p.tenants.get(key[1])
                return FREE if t is None else t.class_max.get(key[2], FREE)
            case "u":
                user, tenant = p.users.get(key[1:]), p.tenants.get(key[1])
                for own in (user.max if user else None, tenant.user_max if tenant else None, p.user_max):
                    if own is not None:
                        return own
                return FREE
            case _:
                k = p.tools.get(key[1])
                if k is None:
                    return FREE
                stopped = k.paused or (k.cooldown_until or 0) > self.snapshot.now
                return 0 if stopped else FREE if k.max is None else k.max

    @staticmethod
    def tenant_cap(t) -> int:
        if t is None:
            return FREE
        if t.paused:
            return 0
        cap = FREE if t.max is None else t.max
        return cap if t.borrow is None else min(cap, t.nominal + t.borrow)

    def held_by_others(self, work_class) -> int:
        held = 0
        for key, c in self.policy.classes.items():
            if key != work_class and c.min and c.lend is not None:
                held += max(0, c.min - c.lend - self.run[("c", key)])
        return held

    def limit(self, lane: Lane):
        for key in self.keys(lane.work_class, lane.tenant, lane.user, lane.tools):
            if self.run[key] + 1 > self.cap(key):
                return key
        return None

    def capable(self, lane: Lane, slot) -> bool:
        return lane.caps <= slot.caps and slot.tenant in (None, lane.tenant)

    def broken(self, plan: Plan) -> list[str]:
        """Every rule that the plan breaks."""
        wrong = []
        slots = {slot.id: slot for slot in self.snapshot.slots}
        wrong += [f"slot {s} oversubscribed" for s, free in self.free.items() if free < 0]
        for key, n in self.run.items():
            if n > self.before[key] and n > self.cap(key):
                wrong.append(f"limit {key}: {n} > {self.cap(key)}")
        tasks = [a.task for a in plan.assignments]
        if len(set(tasks)) != len(tasks):
            wrong.append("a task twice")
        for a in plan.assignments:
            lane = self.lanes[a.lane]
            if a.task not in {h.id for h in lane.heads} | ({lane.oldest.id} if lane.oldest else set()):
                wrong.append(f"task {a.task} is not in lane {a.lane}")
            if not self.capable(lane, slots[a.session]) or slots[a.session].worker != a.worker:
                wrong.append(f"task {a.task} cannot run on {a.session}")
            if a.charged < 1:
                wrong.append(f"task {a.task} costs nothing")
        return wrong + self.overspent(plan)

    def overspent(self, plan: Plan) -> list[str]:
        """Cost budgets that this plan spends beyond what was left."""
        wrong = []
        for key, budget in self.policy.cost_budgets.items():
            spent = sum(a.charged for a in plan.assignments if self.pays(budget, self.lanes[a.lane]))
            if spent and spent > budget.left:
                wrong.append(f"budget {key}: {spent} > {budget.left}")
        return wrong

    @staticmethod
    def pays(budget, lane: Lane) -> bool:
        named = ((budget.work_class, lane.work_class), (budget.user, lane.user))
        return (
            budget.tenant == lane.tenant
            and all(wanted is None or wanted == found for wanted, found in named)
            and lane.work_class != budget.spared
        )

    def idle(self) -> list[str]:
        """Lanes that wait although a slot could take their next task, also after moving this cycle's assignments."""
        room = min(sum(self.free.values()), self.cap("all") - self.run["all"])
        found = []
        for lane in self.snapshot.lanes:
            if (
                len(lane.heads) <= self.started[lane.id]
                or self.limit(lane)
                or any(self.pays(self.policy.cost_budgets[key], lane) for key in self.refused_by)
                or room - self.held_by_others(lane.work_class) <= 0
            ):
                continue
            if self.augments(lane):
                found.append(f"lane {lane.id} waits beside a usable slot")
        return found

    def augments(self, lane: Lane) -> bool:
        """Whether one more task of the lane fits: maximum bipartite matching of all started tasks and this one."""
        units = [s for s in self.snapshot.slots for _ in range(s.free)]
        wanted = [self.lanes[i] for i, n in self.started.items() for _ in range(n)] + [lane]
        owner: dict[int, int] = {}

        def place(task: int, seen: set[int]) -> bool:
            for i, slot in enumerate(units):
                if i not in seen and self.capable(wanted[task], slot):
                    seen.add(i)
                    if i not in owner or place(owner[i], seen):
                        owner[i] = task
                        return True
            return False

        return all(place(task, set()) for task in range(len(wanted)))
