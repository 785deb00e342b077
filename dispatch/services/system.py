"""The installation itself: processes with their pulses, leaders of the pools, database."""

import time
from typing import Any

from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.store import db

SILENT_S = 3.0  #: a process without a pulse for so long is away


def system(caller: Caller) -> dict[str, Any]:
    """`processes`, `leaders`, `database` (scope `read` for the whole installation); ages in seconds, sizes in bytes;
    `answer_ms` is how long the database took to describe itself.

    A process's `work` says in words what it does; the reconciler's when it swept last, how late, and what it found.
    """
    access.require_everywhere(caller, "read")
    processes = db.rows("list_processes")
    for process in processes:
        process["state"] = "live" if process["beat_age_s"] <= SILENT_S else "silent"
        process["work"] = _work(process["kind"], process["info"], process["beat_age_s"])
    asked = time.perf_counter()
    database = db.one("describe_database")
    assert database is not None
    return {
        "processes": processes,
        "leaders": db.rows("list_leaders"),
        "database": database | {"answer_ms": (time.perf_counter() - asked) * 1000},
    }


def _work(kind: str, info: dict[str, Any], beat_age_s: float) -> str:
    if kind == "dispatcher" and "leading" in info:
        return f"leads {len(info['leading'])} of {len(info.get('pools', ()))} pools"
    if kind != "reconciler" or "working" not in info:
        return ""
    if not info["working"]:
        return "stands by"
    swept, checked = info.get("swept_s"), info.get("checked_s")
    if swept is None:
        return "has not swept yet"
    told = f"swept {swept + beat_age_s:.1f} s ago in {info['sweep_took_s'] * 1000:.0f} ms, {info['lag_s']:.1f} s late"
    if checked is None:
        return told
    found = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in info["broken"].items())
    return f"{told}; invariants checked {checked + beat_age_s:.0f} s ago: {found or 'they hold'}"
