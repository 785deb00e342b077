"""Search tasks for people: any filter in bounded time, newest first, saying how far it looked.

A page looks at windows of WINDOW tasks that one index finds, the newest first, for at most SPENT_S. What was not
looked at yet is behind the cursor, so nothing is missed: an almost empty page may have a next one.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.services import access, paging, task_list
from dispatch.services.messages import Caller
from dispatch.store import tasks as store

WINDOW = 20_000
SPENT_S = 0.12
COUNTED = 10_000
COUNT_WINDOW = 50_000
MAX_ROWS = 100_000  #: of one download
KIND = "tasks.-id"


@dataclass(frozen=True, slots=True)
class Found:
    """One page, newest first. `older`, `newer`: cursors; `looked_to`: the last task looked at where time was up."""

    items: list[dict[str, Any]]
    older: str | None = None
    newer: str | None = None
    looked_to: int | None = None


def search(
    caller: Caller, filters: Mapping[str, Any], limit: int = 100, cursor: str | None = None, *, up: bool = False
) -> Found:
    """The newest tasks that meet all filters (scope `read`); filters as in services/task_list.py, without `order`.

    A cursor goes on from there to the older ones, with `up` back to the newer ones.
    """
    access.require(caller, "read")
    values = task_list.conditions(caller, filters)
    after = int(paging.decode(KIND, cursor)[0]) if cursor else None
    if values is None:
        return Found([])
    up = up and after is not None
    rows, end = _look(values, limit, after, up=up)
    items = [task_list.item(row) for row in rows[:limit]]
    last = items[-1]["id"] if len(rows) > limit else end  # where to go on in the direction of looking
    looked = end if len(rows) <= limit else None
    ahead = paging.encode(KIND, [last, last]) if last is not None else None
    if not up:
        first = items[0]["id"] if items else after
        return Found(items, ahead, paging.encode(KIND, [first, first]) if after is not None else None, looked)
    bottom = items[0]["id"] if items else after
    return Found(items[::-1], paging.encode(KIND, [bottom, bottom]), ahead, looked)


def _look(values: Mapping[str, Any], limit: int, after: int | None, *, up: bool) -> tuple[list[Any], int | None]:
    """One more row than `limit` where there are, and the end of the last window where more tasks lie behind it."""
    rows: list[dict[str, Any]] = []
    end, started = after, time.monotonic()
    while True:
        rows += store.find_windowed(values, limit + 1 - len(rows), WINDOW, end, up=up)
        if len(rows) > limit:
            return rows, None
        end = store.window_end(values, WINDOW, end, up=up)
        if end is None or time.monotonic() - started > SPENT_S:
            return rows, end


def count(caller: Caller, filters: Mapping[str, Any]) -> tuple[int, bool]:
    """How many tasks meet the filters, and whether that is all: counted to COUNTED among the newest COUNT_WINDOW."""
    access.require(caller, "read")
    values = task_list.conditions(caller, filters)
    if values is None:
        return 0, True
    number = store.count_windowed(values, COUNTED + 1, COUNT_WINDOW)
    whole = number <= COUNTED and store.window_end(values, COUNT_WINDOW, None) is None
    return min(number, COUNTED), whole


def rows(caller: Caller, filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same tasks one by one, at most MAX_ROWS, for a download; refusals come before the first."""
    first = search(caller, filters, paging.MAX_LIMIT)
    return _rows(caller, filters, first)


def _rows(caller: Caller, filters: Mapping[str, Any], found: Found) -> Iterator[dict[str, Any]]:
    sent = 0
    while True:
        yield from found.items
        sent += len(found.items)
        if found.older is None or sent >= MAX_ROWS:
            return
        found = search(caller, filters, paging.MAX_LIMIT, found.older)
