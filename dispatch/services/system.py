"""The installation itself: processes with their pulses, leaders of the pools, database."""

from typing import Any

from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.store import db

SILENT_S = 3.0  #: a process without a pulse for so long is away


def system(caller: Caller) -> dict[str, Any]:
    """`processes`, `leaders`, `database` (scope `read` for the whole installation); ages in seconds, sizes in bytes."""
    access.require_everywhere(caller, "read")
    processes = db.rows("list_processes")
    for process in processes:
        process["state"] = "live" if process["beat_age_s"] <= SILENT_S else "silent"
    return {
        "processes": processes,
        "leaders": db.rows("list_leaders"),
        "database": db.one("describe_database"),
    }
