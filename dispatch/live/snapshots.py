"""The one snapshot per second and process that all viewers, pages and sockets share.

`get` answers from memory while the numbers are younger than FRESH_S and asks the service otherwise; of several
threads that ask at once one queries, the others wait for it. People who see everything share one entry; people of
departments share one with those of the same departments.
"""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dispatch.services import history, overview
from dispatch.services.messages import Caller

FRESH_S = 0.9
PAST_S = 5.0  #: for what costs more to read
KEPT = 256  #: entries; the oldest are dropped

T = TypeVar("T")


@dataclass(slots=True)
class Entry:
    """The latest numbers of one audience."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: float = float("-inf")  # monotonic seconds
    numbers: Any = None
    past: dict[str, Any] = field(default_factory=dict)
    past_taken: float = float("-inf")


_entries: dict[Hashable, Entry] = {}
_guard = threading.Lock()


def audience(caller: Caller, pool: str | None) -> Hashable:
    """Who may share a snapshot: callers with equal rights to read."""
    inside = (caller.tenant_id, caller.pool_id, frozenset(caller.memberships.items()), caller.payload_tenants)
    return (pool, "read" in caller.scopes, caller.view_payloads, *inside)


def get(caller: Caller, pool: str | None = None, fresh_s: float = FRESH_S) -> Mapping[str, Any]:
    """The numbers for this caller, at most `fresh_s` seconds old. Forbidden and NotFound come from the service."""
    key = audience(caller, pool)
    entry = _entry(key)

    def read() -> Mapping[str, Any]:
        started = time.monotonic()
        numbers = overview.overview(caller, pool)
        if started - entry.past_taken > PAST_S:
            shown = numbers["pool"]
            entry.past = {
                "dead_kinds": history.dead_kinds(caller, shown),
                "shares": history.shares(caller, shown),
            }
            entry.past_taken = started
        return {**numbers, **entry.past}

    return shared(key, fresh_s, read)


def shared(key: Hashable, fresh_s: float, read: Callable[[], T]) -> T:
    """What `read` gave for this key, at most `fresh_s` seconds ago; of several who ask at once one reads."""
    entry = _entry(key)
    with entry.lock:
        if entry.numbers is None or time.monotonic() - entry.taken > fresh_s:
            started = time.monotonic()
            entry.numbers, entry.taken = read(), started
        found: T = entry.numbers
        return found


def expire() -> None:
    """Something was changed by this process: the next look reads anew."""
    with _guard:
        for entry in _entries.values():
            entry.taken = float("-inf")


def _entry(key: Hashable) -> Entry:
    with _guard:
        entry = _entries.pop(key, None) or Entry()
        _entries[key] = entry
        while len(_entries) > KEPT:
            _entries.pop(next(iter(_entries)))
        return entry
