"""A small running system inside one process: real services, real database, workers on a clock of the test's own.

    shop = Shop(w1=("code",), w2=("code", "gpu"))
    shop.put(10, tenant="alpha", work_class="background", takes=0.2)
    starts = shop.run(40)          # the next 40 starts, in order

Each worker holds one task at a time and claims again at once. Time is virtual: a task ends `takes` seconds after its
start, and says so as its cost. The dispatcher is the product's own cycle, called whenever a worker asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from dispatch.services import policy
from dispatch.services.messages import DeliveredLease
from tests import fleet
from tests.services.leader import Leader, forget

CLASSES = {"critical": 6, "interactive": 3, "background": 1}
TENANTS = ("alpha", "beta", "gamma")


@dataclass(frozen=True)
class Start:
    """One start: when (virtual seconds), which task, whose, where."""

    at: float
    task: int
    tenant: str
    work_class: str
    worker: str


@dataclass
class Shop:
    """Fixture S0: three tenants of at most 10 slots each, classes 6:3:1, four workers of one slot."""

    workers: dict[str, Sequence[str]] = field(
        default_factory=lambda: {"w1": ("code",), "w2": ("code",), "w3": ("code",), "w4": ("code", "gpu")}
    )
    now: float = 0.0

    def __post_init__(self) -> None:
        forget()
        fleet.world(TENANTS, ())
        for slug in TENANTS:
            self.edit("tenant", slug, max=10)
        for slug, weight in CLASSES.items():
            policy.create(fleet.ROOT, "class", slug, {"weight": weight})
        self.leader = Leader()
        self.takes: dict[int, float] = {}
        self.sessions: dict[str, int] = {}
        self.parked: dict[str, int] = {}
        self.busy: list[tuple[float, str, DeliveredLease]] = []
        for name, caps in self.workers.items():
            self.join(name, caps)

    def join(self, name: str, caps: Sequence[str]) -> None:
        """One more worker."""
        self.sessions[name] = fleet.join(name, caps=caps).session_id

    def edit(self, kind: str, slug: str, **changes: Any) -> dict[str, Any]:
        """An operator's edit."""
        version = policy.get(fleet.ROOT, kind, slug)["version"]
        return policy.patch(fleet.ROOT, kind, slug, version, changes, "test")

    def put(self, count: int, takes: float = 1.0, capabilities: Sequence[str] = ("code",), **fields: Any) -> list[int]:
        """Submit tasks, a thousand at a time."""
        ids: list[int] = []
        while len(ids) < count:
            ids += fleet.put(min(1000, count - len(ids)), capabilities=tuple(capabilities), **fields)
        self.takes.update(dict.fromkeys(ids, takes))
        return ids

    def dispatch(self) -> list[Start]:
        """Let idle workers ask, dispatch, deliver: what started."""
        held = {name for _, name, _ in self.busy}
        idle = [name for name in self.sessions if name not in held]
        for name in idle:
            if name not in self.parked:
                self.parked[name] = fleet.ask(self.sessions[name], 1, wait_s=10).demand_id
        self.leader.run()
        started = []
        for name in idle:
            for lease in fleet.ask(self.sessions[name], 1, wait_s=10, demand_id=self.parked[name]).leases:
                del self.parked[name]
                heappush(self.busy, (self.now + self.takes[lease.task_id], name, lease))
                started.append(Start(self.now, lease.task_id, lease.tenant, lease.work_class, name))
        return started

    def finish(self) -> None:
        """Let the running task that ends next end."""
        self.now, _, lease = heappop(self.busy)
        state = fleet.ended("complete", lease.task_id, lease.token, cost=self.takes[lease.task_id])
        assert state == "succeeded"

    def run(self, starts: int) -> list[Start]:
        """The next starts, in order; fewer when nothing is left."""
        found = self.dispatch()
        while len(found) < starts and self.busy:
            self.finish()
            found += self.dispatch()
        return found

    def running(self, tenant: str) -> int:
        """How much of a tenant runs."""
        return sum(lease.tenant == tenant for _, _, lease in self.busy)
