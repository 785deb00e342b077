"""What a page may subscribe to: a kind, a key where the kind has many (`class:batch`), the pool and tenant looked at.

Kinds are those of dispatch/live/cells (PARTS: made of the numbers that all pages share; OWN: with a reading of their
own, which READERS makes here). Whoever narrows the view to a tenant sees what a key of that tenant would see.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.live import cells, snapshots
from dispatch.live.cells import Cells
from dispatch.services import access, bulk, departments, queue, supply, system, tasks, worker_control
from dispatch.services.messages import Caller

LONGEST = 200  #: characters of a topic's name


@dataclass(frozen=True, slots=True)
class Topic:
    """One subscription."""

    kind: str
    key: str = ""
    pool: str | None = None
    tenant: str | None = None

    @property
    def name(self) -> str:
        """What stands in the page and in the socket's address."""
        return f"{self.kind}:{self.key}" if self.key else self.kind


#: kind → what a topic of this kind reads for itself, with the rights of the caller
READERS: Mapping[str, Callable[[Caller, Topic], Any]] = {
    "bulk": lambda caller, topic: bulk.get(caller, number(topic.key)),
    "task": lambda caller, topic: tasks.pulse(caller, number(topic.key)),
    "queue": lambda caller, topic: queue.queue(caller, *topic.key.split("/", 1)),
    "system": lambda caller, topic: system.system(caller),
    "capabilities": lambda caller, topic: supply.supply(caller, topic.pool),
    "workers": lambda caller, topic: topic.key if topic.key in cells.workers.ONLY else None,
    "worker": lambda caller, topic: worker_control.get_worker(caller, number(topic.key)),
    "queues": lambda caller, topic: queue.groups(access.narrow(caller, topic.tenant), topic.key or "queue", topic.pool),
    "department": lambda caller, topic: departments.overview(caller, topic.tenant or "", topic.pool),
}


def number(key: str) -> int:
    """The id that a key names; 0, which nothing has, for other keys."""
    return int(key) if key.isdecimal() and len(key) < 19 else 0


def parse(name: str, pool: str | None = None, tenant: str | None = None) -> Topic | None:
    """The topic of a name such as `overview` or `class:batch`; None for one that does not exist."""
    kind, _, key = name.partition(":")
    known = (kind in cells.PARTS and not key) or kind in READERS
    return Topic(kind, key, pool or None, tenant or None) if known and len(name) <= LONGEST else None


def read(person: Caller, topic: Topic, fresh_s: float = snapshots.FRESH_S) -> Cells:
    """All cells of a topic for this person, not older than `fresh_s`. Raises what the services refuse with."""
    return cells.cells(topic.kind, numbers(person, topic, fresh_s), own(person, topic, fresh_s))


def numbers(person: Caller, topic: Topic, fresh_s: float = snapshots.FRESH_S) -> Mapping[str, Any]:
    """The shared numbers of the pool and tenant that the topic looks at."""
    return snapshots.get(access.narrow(person, topic.tenant), topic.pool, fresh_s)


def own(person: Caller, topic: Topic, fresh_s: float = snapshots.FRESH_S) -> Any:
    """The reading that only this topic needs, shared by its viewers; None for kinds without one."""
    reader = READERS.get(topic.kind)
    if reader is None:
        return None
    key = (snapshots.audience(person, None), topic)
    return snapshots.shared(key, fresh_s, lambda: reader(person, topic))
