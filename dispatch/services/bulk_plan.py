"""What a bulk job would do, and has done: the split of its frozen tasks, its canary, how long it takes, whom it delays.

The estimates say how they are made. A job is as slow as the slowest of its brakes: the rate that was asked for, the
room in flight (so many tasks at a time, each as long as attempts of these classes ran lately), and what the classes
start a second just now. Tasks that others submit to the same class meanwhile stand behind the requeued ones at worst;
other classes keep their shares.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dispatch.core.states import State
from dispatch.services import bulk
from dispatch.services.messages import Caller
from dispatch.store import db

COUNTED = 100_000  #: frozen tasks that are looked at for the split
BATCH = 1000
ITEMS = {0: "not touched", 1: "done", 2: "skipped", 3: "ended well", 4: "dead again"}

Row = dict[str, Any]


def dry_run(caller: Caller, job_id: int) -> Row:
    """`job`, `eligible` and `skipped` by class and tenant, sums, and what the classes do just now."""
    job = bulk.get(caller, job_id)
    rows = db.rows("bulk_breakdown", {"id": job_id, "action": job["action"], "limit": COUNTED})
    eligible = [row for row in rows if not row["verdict"]]
    skipped = [row for row in rows if row["verdict"]]
    classes = sorted({row["class"] for row in eligible})
    return {
        "job": job,
        "eligible": eligible,
        "skipped": skipped,
        "ready": sum(row["count"] for row in eligible),
        "late": sum(row["late"] for row in eligible),
        "stopped": sum(row["stopped"] for row in eligible),
        "capped": job["matched"] > COUNTED,
        "now": {row["class"]: row for row in db.rows("bulk_pace_now", {"classes": classes})},
    }


def first(caller: Caller, job_id: int, limit: int = 5) -> list[Row]:
    """The tasks that go first."""
    bulk.get(caller, job_id)
    return db.rows("bulk_first", {"id": job_id, "limit": limit})


def delays(split: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """For each class, by how many seconds its later tasks wait longer at most; None: nothing of it starts just now."""
    counts: dict[str, int] = {}
    for row in split["eligible"]:
        counts[row["class"]] = counts.get(row["class"], 0) + row["count"]
    found = []
    for name, count in sorted(counts.items()):
        rate = split["now"].get(name, {}).get("starts_per_s") or 0
        found.append((name, count / rate if rate else None))
    return found


def estimate(split: Mapping[str, Any], pace: Mapping[str, Any]) -> Row:
    """Seconds until the last task is requeued and has run (`seconds`, None: unknown), the brake that binds, its parts.

    `canary_s`: how long the canary is watched before the rest goes.
    """
    count = split["ready"]
    now: Sequence[Row] = list(split["now"].values())
    runtimes = [row["runtime_s"] for row in now if row["runtime_s"] is not None]
    runtime = max(runtimes, default=None)
    canary = min(pace.get("canary") or 0, count)
    watched = None if canary and runtime is None else (runtime or 0.0) if canary else 0.0
    rest = count - canary
    brakes: dict[str, float | None] = {}
    if rate := pace.get("rate_per_s"):
        brakes["rate"] = rest / rate
    if room := pace.get("max_in_flight"):
        brakes["room"] = None if runtime is None else rest * runtime / room
    starts = sum(row["starts_per_s"] for row in now)
    brakes["fleet"] = rest / starts if starts else None
    known = {name: seconds for name, seconds in brakes.items() if seconds is not None}
    binds = max(known, key=lambda name: known[name]) if known else ""
    seconds = None if not known or watched is None else known[binds] + watched
    return {"seconds": seconds, "binds": binds, "canary": canary, "canary_s": watched, "count": count, "brakes": brakes}


def results(caller: Caller, job_id: int) -> Iterator[Row]:
    """What became of every task of a job, in the order of their numbers, read in batches."""
    bulk.get(caller, job_id)
    return _results(job_id)


def _results(job_id: int) -> Iterator[Row]:
    after = 0
    while rows := db.rows("bulk_results", {"id": job_id, "after": after, "limit": BATCH}):
        for row in rows:
            state = "gone" if row["state"] is None else State(row["state"]).word
            yield row | {"item": ITEMS[row["item"]], "state": state}
        after = rows[-1]["task_id"]
