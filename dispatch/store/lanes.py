"""Lanes by their names: found or made in sets, with the users and capability sets they need.

Everything is written in key order (users, capability sets, lanes: the same order everywhere), so batches never wait for
each other in a circle. A lane never changes and its row outlives its tasks, so each process remembers the lanes it has
met, once they are committed, without expiry; the memory is bounded, and emptied when a remembered lane turned out to be
gone (a database that was restored under a running process).
"""

import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db import transaction

from dispatch.store import capsets, db

CACHE_SIZE = 100_000


class LaneName(NamedTuple):
    """What makes a lane: ids, but user and capabilities by name (sorted, without doubles), as they may be new."""

    pool: int
    work_class: int
    tenant: int
    user: str
    capabilities: tuple[str, ...]
    tools: tuple[int, ...]


_Key = tuple[int, int, int, int, int, tuple[int, ...]]  # pool, class, tenant, user, capset, sorted tools

_cache: dict[LaneName, int] = {}
_lock = threading.Lock()


def forget() -> None:
    """Empty this process's memory."""
    with _lock:
        _cache.clear()


def remembered(names: Iterable[LaneName]) -> bool:
    """Whether this process has met all these lanes before."""
    return all(name in _cache for name in names)


def resolve(names: Iterable[LaneName]) -> dict[LaneName, int]:
    """Ids of lanes; missing ones come into being inside the caller's transaction."""
    known: dict[LaneName, int] = {}
    missing: list[LaneName] = []
    for name in sorted(set(names)):
        lane_id = _cache.get(name)
        if lane_id is None:
            missing.append(name)
        else:
            known[name] = lane_id
    if missing:
        found = _find_or_make(missing)
        transaction.on_commit(lambda: _remember(found))
        known |= found
    return known


def _find_or_make(names: Sequence[LaneName]) -> dict[LaneName, int]:
    users = _users({(name.tenant, name.user) for name in names})
    sets = capsets.intern({name.capabilities for name in names})
    keys: dict[LaneName, _Key] = {
        name: (
            name.pool,
            name.work_class,
            name.tenant,
            users[name.tenant, name.user],
            sets[name.capabilities],
            name.tools,
        )
        for name in names
    }
    wanted = sorted(keys.values())
    found = _find(wanted)
    if fresh := [key for key in wanted if key not in found]:
        db.execute("insert_lanes", _columns(fresh))
        found |= _find(fresh)
    return {name: found[key] for name, key in keys.items()}


def _remember(found: dict[LaneName, int]) -> None:
    with _lock:
        if len(_cache) + len(found) > CACHE_SIZE:
            _cache.clear()
        _cache.update(found)


def _columns(keys: Sequence[_Key]) -> dict[str, list[int] | list[str]]:
    return {
        "pools": [key[0] for key in keys],
        "classes": [key[1] for key in keys],
        "tenants": [key[2] for key in keys],
        "users": [key[3] for key in keys],
        "capsets": [key[4] for key in keys],
        "tools": ["{" + ",".join(map(str, key[5])) + "}" for key in keys],  # arrays of several lengths do not nest
    }


def _find(keys: Sequence[_Key]) -> dict[_Key, int]:
    return {keys[n - 1]: lane_id for n, lane_id in db.tuples("find_lanes", _columns(keys))}


def _users(pairs: set[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Ids of users by (tenant id, name); missing ones come into being."""
    found = _find_users(sorted(pairs))
    if missing := sorted(pair for pair in pairs if pair not in found):
        db.execute("insert_users", {"tenants": [p[0] for p in missing], "names": [p[1] for p in missing]})
        found |= _find_users(missing)
    return found


def _find_users(pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
    params = {"tenants": [p[0] for p in pairs], "names": [p[1] for p in pairs]}
    return {(tenant, name): user for tenant, name, user in db.tuples("find_users", params)}
