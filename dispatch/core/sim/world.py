"""The simulated world: events on a virtual clock, a cycle of the real core after every instant with events."""

from collections.abc import Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from dispatch.core.cycle import OVERRUN_PART
from dispatch.core.memory import Memory
from dispatch.core.policies import Planner
from dispatch.core.quota import Quotas
from dispatch.core.sim.arrivals import Agenda, Arrivals
from dispatch.core.sim.report import Meter, Report
from dispatch.core.sim.scenario import Scenario
from dispatch.core.sim.workload import Item, LaneKey, Task
from dispatch.core.types import MICRO, Ended, Id, Lane, Load, Plan, Running, Slot, Snapshot

MAX_LOG = 20


class Machine:
    """One worker: what it runs, whether it counts as alive, the fault that froze it."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.seen: Slot | None = slot
        self.busy: dict[Id, Task] = {}
        self.alive = True
        self.frozen = False
        self.wakes_at: int | None = None
        self.deficit = 0

    def view(self) -> Slot:
        """The machine as the dispatcher sees it now; `seen` is reset by whoever changes it."""
        if self.seen is None:
            load = sum(task.charged for task in self.busy.values())
            free = max(0, self.slot.slots - len(self.busy))
            self.seen = replace(self.slot, free=free, deficit=self.deficit, load=load)
        return self.seen


def simulate(scenario: Scenario, planner: Planner) -> Report:
    """Run one scenario to its horizon under a policy."""
    return World(scenario, planner).run()


class World:
    """The state of one run."""

    def __init__(self, scenario: Scenario, planner: Planner) -> None:
        self.scenario = scenario
        self.planner = planner
        self.memory = Memory()
        self.meter = Meter(scenario)
        self.machines = {slot.id: Machine(slot) for slot in scenario.slots}
        self.capacity = sum(slot.slots for slot in scenario.slots)
        self.running: dict[Id, Task] = {}
        self.loads: dict[LaneKey, Load] = {}
        self.watched: list[tuple[int, Id, int]] = []  # when a running task's cost passes its charge
        self.ended: list[Ended] = []
        self.reclaimed: set[tuple[Id, int]] = set()
        self.occupied = 0
        self.agenda = Agenda()
        self.agenda.now = scenario.start
        self.arrivals = Arrivals(self.agenda, self.meter, scenario, self.capacity)
        for fault in scenario.faults:
            self.agenda.at(round(fault["at"] * MICRO), self._fault, fault)
        for when in scenario.sample_at:
            self.agenda.at(when, self.meter.sample)
        if scenario.tick:
            self.agenda.at(scenario.start, self._tick)

    @property
    def now(self) -> int:
        """Virtual microseconds since the start."""
        return self.agenda.now

    def _tick(self) -> None:
        self.agenda.at(self.now + self.scenario.tick, self._tick)

    def run(self) -> Report:
        """All events up to the horizon (or the most starts), a cycle after each instant."""
        horizon = self.scenario.horizon
        while not self._enough() and self.agenda.next_instant(horizon):
            self.meter.advance(self.now)
            self.agenda.play()
            self.arrivals.refill()
            if self.arrivals.waiting():
                self._cycle()
        if not self._enough():
            self.agenda.now = horizon
            self.meter.advance(horizon)
        return self.meter.report(list(self.arrivals.queues.values()))

    def _enough(self) -> bool:
        most = self.scenario.most
        return most is not None and self.meter.counts["dispatched"] >= most

    # Running tasks

    def occupy(self, spec: Mapping[str, Any], session: Id, ran: int, charged: int, promoted: bool) -> None:
        """Before the run: a task (a line of the workload) that runs already, for `ran` microseconds."""
        self.occupied += 1
        item = Item(-self.occupied, spec)
        task = Task(-self.occupied, item.key, self.now, item)
        task.ever = True  # its wait is over: it counts with nobody's waits
        task.dur = max(MICRO, task.dur - ran)
        self.arrivals.put_back(task)
        self._start(task, session, charged, promoted)

    def _start(self, task: Task, slot: Id, charged: int, promoted: bool) -> None:
        machine = self.machines[slot]
        self.arrivals.queues[task.key].take(task)
        task.token += 1
        task.slot, task.started_at, task.charged, task.promoted = slot, self.now, charged, promoted
        machine.busy[task.id] = self.running[task.id] = task
        machine.seen = None
        self._count(task, 1)
        self._watch(task)
        self.meter.starts_task(task)
        if machine.frozen:
            self.agenda.at(self.now + self.scenario.lease_ttl + self.scenario.reconcile, self._expire, task, task.token)
        self.agenda.at(self.now + task.dur, self._finish, task, task.token, machine)

    def _leave(self, task: Task, *, completed: bool, measured: bool) -> None:
        """The slot is free again, the cost is known."""
        cost = round((self.now - task.started_at) * task.rate)
        machine = self.machines[task.slot]
        del self.running[task.id], machine.busy[task.id]
        machine.seen = None
        self._count(task, -1)
        self.meter.ends_task(task, cost, completed=completed)
        ended = Ended(
            work_class=task.key[0],
            tenant=task.key[1],
            user=task.key[2],
            worker=task.slot,
            charged=task.charged,
            actual=cost,
            hint=task.head.est,
            completed=measured,
        )
        self.ended.append(ended)
        task.yielding = task.promoted = False

    def _finish(self, task: Task, token: int, machine: Machine) -> None:
        if machine.frozen:
            if machine.wakes_at is not None:  # it reports when it wakes
                self.agenda.at(max(machine.wakes_at, self.now) + 1, self._finish, task, token, machine)
            return
        if token != task.token or task.id not in self.running:
            self.meter.counts["fencing_rejects"] += (task.id, token) in self.reclaimed
            return
        if task.poison:
            self._fail(task, "failed")
            return
        self.meter.counts["completed"] += 1
        self._leave(task, completed=True, measured=True)

    def _fail(self, task: Task, outcome: str) -> None:
        self._leave(task, completed=False, measured=outcome == "failed")
        self.meter.counts[outcome] += 1
        task.token += 1
        task.attempts += 1
        if task.attempts > self.scenario.max_reclaims:
            self.meter.counts["dead_lettered"] += 1
        elif self.scenario.backoff:
            self.agenda.at(self.now + self.scenario.backoff, self._return, task)
        else:
            self._return(task)

    def _return(self, task: Task) -> None:
        self.arrivals.put_back(task)

    def _yield(self, task: Task, token: int) -> None:
        if token != task.token or task.id not in self.running:
            return
        ran = self.now - task.started_at
        self._leave(task, completed=False, measured=False)
        task.token += 1
        if task.resume:
            task.dur = max(1, task.dur - ran)
            if task.head.est is not None:
                task.head = replace(task.head, est=max(1, task.head.est - round(ran * task.rate)))
        self._return(task)

    # Faults

    def _fault(self, fault: dict[str, Any]) -> None:
        machine = self.machines[fault["worker"]]
        renews = fault["kind"] == "hang_renewing"
        machine.frozen = True
        machine.wakes_at = round(fault["until"] * MICRO) if fault.get("until") is not None else None
        ttl = self.scenario.stall_ttl if renews else self.scenario.lease_ttl
        for task in list(machine.busy.values()):
            self.agenda.at(self.now + ttl + self.scenario.reconcile, self._expire, task, task.token)
        if not machine.busy:
            machine.alive = renews
        if machine.wakes_at is not None:
            self.agenda.at(machine.wakes_at, self._recover, machine)

    def _expire(self, task: Task, token: int) -> None:
        if token != task.token or task.id not in self.running:
            return
        machine = self.machines[task.slot]
        machine.alive = machine.alive and not machine.frozen
        self.reclaimed.add((task.id, token))
        self._fail(task, "reclaimed")

    def _recover(self, machine: Machine) -> None:
        machine.frozen, machine.alive, machine.wakes_at = False, True, None

    # Cycles

    def _cycle(self) -> None:
        snapshot = self.snapshot()
        self.ended = []
        plan = self.planner(snapshot, self.memory)
        self.memory.commit()
        self.meter.counts["plans"] += 1
        quotas = Quotas(snapshot)
        self._apply(plan, quotas)
        self._audit(quotas, max(1, sum(slot.free for slot in snapshot.slots)))

    def snapshot(self) -> Snapshot:
        """What the dispatcher would read now."""
        slots = tuple(m.view() for m in self.machines.values() if m.alive)
        wanted = max(1, sum(slot.free for slot in slots))
        return Snapshot(
            now=self.now,
            policy=self.scenario.policy,
            slots=slots,
            lanes=tuple(queue.lane(wanted) for queue in self.arrivals.queues.values() if queue.length),
            loads=tuple(load for load in self.loads.values() if load.running),
            running=tuple(self._running(task) for task in self._listed()),
            ended=tuple(self.ended),
        )

    def _count(self, task: Task, n: int) -> None:
        old = self.loads.get(task.key)
        if old is None:
            work_class, tenant, user, caps, tools = task.key
            old = Load(work_class=work_class, tenant=tenant, user=user, caps=caps, tools=tools, running=0)
        self.loads[task.key] = replace(
            old,
            running=old.running + n,
            promoted=old.promoted + n * task.promoted,
            yielding=old.yielding + n * task.yielding,
        )

    def _watch(self, task: Task) -> None:
        due = task.started_at + int((task.charged + task.charged // OVERRUN_PART + 1) / task.rate)
        heappush(self.watched, (due, task.id, task.token))

    def _listed(self) -> list[Task]:
        """Running tasks that matter one by one: all where tasks may be asked to yield, else those that overrun."""
        due = []
        while self.watched and self.watched[0][0] <= self.now:
            _, task_id, token = heappop(self.watched)
            task = self.running.get(task_id)
            if task is not None and task.token == token:
                due.append(task)
        if self.scenario.policy.reclaim_min_runtime is not None:
            return list(self.running.values())
        return due

    def _running(self, task: Task) -> Running:
        return Running(
            id=task.id,
            work_class=task.key[0],
            tenant=task.key[1],
            user=task.key[2],
            started_at=task.started_at,
            charged=task.charged,
            session=task.slot,
            cost=round((self.now - task.started_at) * task.rate),
            yieldable=task.yieldable,
            yielding=task.yielding,
        )

    def _apply(self, plan: Plan, quotas: Quotas) -> None:
        for task_id, charged in plan.overruns.items():
            task = self.running[task_id]
            task.charged = charged
            self.machines[task.slot].seen = None
            self._watch(task)
        for worker, deficit in plan.deficits.items():
            self.machines[worker].deficit = deficit
            self.machines[worker].seen = None
        for a in plan.assignments:
            queue, machine = self.arrivals.by_name[a.lane], self.machines[a.session]
            found = next((task for _, _, task in queue.ready if task.id == a.task), None)
            if found is None or not self._fits(found, machine):
                self._violation("invalid", f"{a.task} to {a.session}")
                continue
            lane = queue.lane(1)
            if quotas.room <= 0 or not quotas.within_limits(lane):
                self._violation("cap", a.lane)
            _count(quotas, lane)
            self._start(found, a.session, a.charged, a.tier == "P")
        for task_id in plan.yields:
            task = self.running[task_id]
            self._count(task, -1)
            task.yielding = True
            self._count(task, 1)
            self.meter.counts["yields"] += 1
            self.agenda.at(self.now + self.scenario.yield_grace, self._yield, task, task.token)

    @staticmethod
    def _fits(task: Task, machine: Machine) -> bool:
        return machine.alive and len(machine.busy) < machine.slot.slots and task.key[3] <= machine.slot.caps

    # Auditing

    def _violation(self, kind: str, what: str) -> None:
        self.meter.violations[kind] += 1
        if len(self.meter.log) < MAX_LOG:
            self.meter.log.append(f"{self.now / MICRO:.3f} {kind}: {what}")

    def _audit(self, quotas: Quotas, wanted: int) -> None:
        """Look for idle slots beside startable work, and for classes below their minimum."""
        free = [m.slot.caps for m in self.machines.values() if m.alive and len(m.busy) < m.slot.slots]
        waiting = [queue.lane(wanted) for queue in self.arrivals.queues.values() if queue.length]
        startable = [lane for lane in waiting if quotas.within_limits(lane)]
        for lane in startable:
            room = quotas.room_for(quotas.of_class(lane.work_class))
            if quotas.room > 0 and room > 0 and any(lane.caps <= caps for caps in free):
                self._violation("work_conservation", str(lane.id))
                break
        wanting = {lane.work_class for lane in startable}
        for work_class, policy in self.scenario.policy.classes.items():
            if policy.min:
                self.meter.floor(work_class, work_class in wanting and quotas.of_class(work_class).run < policy.min)


def _count(quotas: Quotas, lane: Lane) -> None:
    others = (
        quotas.of_tenant(lane.tenant),
        quotas.of_user(lane.tenant, lane.user),
        *(quotas.of_tool(tool) for tool in lane.tools),
    )
    quotas.start(quotas.of_class(lane.work_class), others)
