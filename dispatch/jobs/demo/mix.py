"""Which tasks the demo's departments submit, and when: a pure stream from a seeded source of chance.

About LOAD of what the fleet can do, in waves of WAVE_S seconds: queues grow for a while and are worked off again, for
as long as the demo runs. Every task is real work on the project's own files, paced to last 1 to 60 seconds.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOAD = 0.9  # of the fleet's slots, on average
WAVE = 0.6  # how far the waves go up and down from the average
WAVE_S = 180.0
MEAN_S = 8.5  # length of an average task, see _length
POISON_EVERY = 40  # tasks
LONGEST_S = 60.0
STALL_S = 12.0  # longer than the lease: a crash ends as "lost", only a hang as "stalled"

CLASSES = {"critical": 0.2, "interactive": 0.45, "background": 0.35}
PEOPLE = {
    "sales": ("ana", "bruno", "chen"),
    "finance": ("dora", "emil"),
    "engineering": ("farah", "goran", "hana", "ivo"),
}
TOOL = {"sales": "crm", "finance": "ledger", "engineering": "search"}
TEXTS = {"docs": "*.md", "templates": "*.html", "dispatch/core": "*.py", "dispatch/services": "*.py"}
FILES = {"static": "*", "dispatch/store/sql": "*.sql", "dispatch/models": "*.py", "dispatch/migrations": "*.py"}
COMMANDS = ("python-version", "system", "uptime", "disk", "date")


@dataclass(frozen=True, slots=True)
class Submission:
    """A task of one department, and how many seconds after the one before it is submitted."""

    after_s: float
    tenant: str
    task: dict[str, Any]


def stream(root: Path, slots: int, chance: random.Random) -> Iterator[Submission]:
    """Tasks for a fleet of so many slots that may read the files below `root`."""
    at, number = 0.0, 0
    while True:
        rate = slots / MEAN_S * LOAD * (1 + WAVE * math.sin(2 * math.pi * at / WAVE_S))
        # The first dozen come at once: somebody who opens the first page sees a fleet at work.
        after = 0.0 if number < 12 else chance.expovariate(rate)
        at += after
        tenant = chance.choices(list(PEOPLE), weights=(5, 3, 4))[0]
        yield Submission(after, tenant, _task(root, tenant, number, chance))
        number += 1


def _task(root: Path, tenant: str, number: int, chance: random.Random) -> dict[str, Any]:
    work_class = chance.choices(list(CLASSES), weights=list(CLASSES.values()))[0]
    length = _length(work_class, chance)
    task: dict[str, Any] = {"tenant": tenant, "class": work_class, "user": chance.choice(PEOPLE[tenant])}
    if number % POISON_EVERY == 3:
        return task | {"type": "poison", "payload": {"record": number}, "class": "background", "max_attempts": 2}
    task |= {"cost": round(length, 1), "max_runtime_s": 4 * length + 30}
    kind = chance.choices(("index_text", "hash_files", "run_command"), weights=(5, 4, 2))[0]
    steps = 1
    if kind == "index_text":
        folder = chance.choice([name for name in TEXTS if (root / name).is_dir()])
        steps = _count(root / folder, TEXTS[folder])
        task |= {"payload": {"folder": folder, "pattern": TEXTS[folder]}, "capabilities": ["text"]}
    elif kind == "hash_files":
        folder = chance.choice([name for name in FILES if (root / name).is_dir()])
        steps = _count(root / folder, FILES[folder])
        task |= {"payload": {"folder": folder, "pattern": FILES[folder]}, "capabilities": ["files"]}
    else:
        task |= {"payload": {"command": chance.choice(COMMANDS)}, "capabilities": ["shell"]}
    pace = length / steps
    task["payload"]["pace_s"] = round(pace, 3)
    if chance.random() < 0.3:
        task["tools"] = [TOOL[tenant]]
    return task | {"type": kind, "progress_timeout_s": round(2 * pace + STALL_S, 1)}


def _length(work_class: str, chance: random.Random) -> float:
    """Seconds from 1 to LONGEST_S, mostly short; background work is the longest."""
    mean = {"critical": 3.0, "interactive": 5.0, "background": 16.0}[work_class]
    return min(LONGEST_S, 1 + chance.expovariate(1 / (mean - 1)))


def _count(folder: Path, pattern: str) -> int:
    return max(1, sum(1 for path in folder.rglob(pattern) if path.is_file()))
