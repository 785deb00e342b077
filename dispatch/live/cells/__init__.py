"""Cells of the live pages: one flat map `key → value` per topic, made from the shared snapshot.

A page is first rendered from this map and later kept up to date by its changes, so both always agree. Text values
are shown as text, never as markup; the other values become attributes of drawings, states and inputs. A list
value names the rows of a table in order; the cells of a row are `<prefix>.<id>.<name>`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dispatch.live.cells import (
    ages,
    alerts,
    audit,
    bulk,
    capabilities,
    chrome,
    classes,
    dead,
    department,
    queue,
    queues,
    system,
    taskpage,
    tiles,
    worker,
    workers,
)

Cell = str | int | float | bool | None | list[str]
Cells = dict[str, Cell]
Snapshot = Mapping[str, Any]

PARTS: dict[str, tuple[Callable[[Snapshot], Cells], ...]] = {
    "overview": (
        chrome.cells,
        alerts.top,
        tiles.cells,
        classes.cells,
        ages.cells,
        workers.top,
        dead.cells,
        dead.commands,
    ),
    "queues": (chrome.cells, queues.cells),
    "workers": (chrome.cells, tiles.cells, workers.cells),
    "dead": (chrome.cells, dead.cells),
    "audit": (chrome.cells, audit.cells),
    "fairness": (chrome.cells, audit.cells),
    "chrome": (chrome.cells,),
}
#: kinds with a reading of their own beside the shared numbers (dispatch/live/topics.py makes it)
OWN: dict[str, Callable[[Snapshot, Any], Cells]] = {
    "bulk": bulk.cells,
    "task": taskpage.cells,
    "department": department.cells,
    "queue": queue.cells,
    "queues": queues.table,
    "system": system.cells,
    "capabilities": capabilities.cells,
    "worker": worker.cells,
    "workers": workers.only,
}


def cells(kind: str, snapshot: Snapshot, own: Any = None) -> Cells:
    """All cells of one kind of topic; those of the frame are always with it."""
    found: Cells = {}
    for part in PARTS.get(kind, PARTS["chrome"]):
        found.update(part(snapshot))
    if kind in OWN and own is not None:
        found.update(OWN[kind](snapshot, own))
    return found


def changes(old: Mapping[str, Cell], new: Mapping[str, Cell]) -> Cells:
    """What differs: new and changed cells with their value, vanished ones with None."""
    found = {key: value for key, value in new.items() if key not in old or old[key] != value}
    found.update((key, None) for key in old.keys() - new.keys())
    return found
