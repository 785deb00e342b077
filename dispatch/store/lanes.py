"""Users and lanes: found or made in sets, in key order (no deadlock), lanes remembered by id once they are committed.

A lane is never changed and its row outlives its tasks, so the cache needs no expiry; it is bounded, and emptied when a
remembered lane turned out to be gone (a database that was restored under a running process).
"""

import threading
from collections.abc import Iterable, Sequence

from django.db import transaction

from dispatch.store import db

LaneKey = tuple[int, int, int, int, int, tuple[int, ...]]  # pool, class, tenant, user, capset, sorted tools
CACHE_SIZE = 100_000

_cache: dict[LaneKey, int] = {}
_lock = threading.Lock()


def forget() -> None:
    """Empty this process's cache."""
    with _lock:
        _cache.clear()


def resolve(keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
    """Ids of lanes; missing ones come into being inside the caller's transaction."""
    wanted = sorted(set(keys))
    known = {key: _cache[key] for key in wanted if key in _cache}
    missing = [key for key in wanted if key not in known]
    if not missing:
        return known
    found = _find(missing)
    fresh = [key for key in missing if key not in found]
    if fresh:
        db.execute("insert_lanes", _columns(fresh))
        found |= _find(fresh)
    transaction.on_commit(lambda: _remember(found))
    return known | found


def _remember(found: dict[LaneKey, int]) -> None:
    with _lock:
        if len(_cache) + len(found) > CACHE_SIZE:
            _cache.clear()
        _cache.update(found)


def _columns(keys: Sequence[LaneKey]) -> dict[str, list[int] | list[str]]:
    return {
        "pools": [key[0] for key in keys],
        "classes": [key[1] for key in keys],
        "tenants": [key[2] for key in keys],
        "users": [key[3] for key in keys],
        "capsets": [key[4] for key in keys],
        "tools": ["{" + ",".join(map(str, key[5])) + "}" for key in keys],  # arrays of several lengths do not nest
    }


def _find(keys: Sequence[LaneKey]) -> dict[LaneKey, int]:
    return {keys[n - 1]: lane_id for n, lane_id in db.tuples("find_lanes", _columns(keys))}


def resolve_users(pairs: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Ids of users by (tenant id, name); missing ones come into being inside the caller's transaction."""
    wanted = sorted(set(pairs))
    found = _find_users(wanted)
    missing = [pair for pair in wanted if pair not in found]
    if missing:
        db.execute("insert_users", {"tenants": [p[0] for p in missing], "names": [p[1] for p in missing]})
        found |= _find_users(missing)
    return found


def _find_users(pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
    params = {"tenants": [p[0] for p in pairs], "names": [p[1] for p in pairs]}
    return {(tenant, name): user for tenant, name, user in db.tuples("find_users", params)}
