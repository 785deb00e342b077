"""Sessions of workers: who may use one, and how often it beats.

Only the key that opened a session, or a caller with `operate`, may use it.

Anybody else hears NotFound, the same as for a session that ended or never was.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from dispatch.core import lease
from dispatch.errors import EvenflowError, Forbidden, NotFound
from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.store import db

MAX_ID = 2**63 - 1
FLEET_AGE_S = 5.0  # how old the fleet's size may be

_fleet: dict[int, tuple[float, int]] = {}
_fleet_lock = threading.Lock()


def known(ids: Iterable[int]) -> list[int]:
    """The ids that can exist at all, without doubles, in order."""
    return sorted({id_ for id_ in ids if 0 < id_ <= MAX_ID})


def find_open(session_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Open sessions by id with worker, pool, key, tenant, slots and the pool's times."""
    ids = known(session_ids)
    return {row["id"]: row for row in db.rows("open_sessions", {"session_ids": ids})} if ids else {}


def touch(opened: Iterable[Mapping[str, Any]]) -> None:
    """Every call of a session is a sign of life; one that was noted a moment ago is not noted again."""
    ids = sorted({session["id"] for session in opened if session["silent"]})
    if ids:
        db.execute("touch_sessions", {"session_ids": ids})


def owns(caller: Caller, holder: dict[str, Any]) -> bool:
    """Whether the caller may act for the session behind `holder` (api_key_id, tenant_id, pool_id)."""
    if caller.kind == "key" and caller.id is not None and caller.id == holder["api_key_id"]:
        return True
    if "operate" not in caller.scopes or caller.pool_id not in {None, holder["pool_id"]}:
        return False
    return caller.tenant_id is None or caller.tenant_id == holder["tenant_id"]


def sees(caller: Caller, row: dict[str, Any]) -> bool:
    """Whether a task (tenant_id, pool_id) exists for this caller: a stranger's answers as a missing one."""
    return caller.tenant_id in {None, row["tenant_id"]} and caller.pool_id in {None, row["pool_id"]}


def refusal(caller: Caller, session: dict[str, Any] | None) -> EvenflowError | None:
    """Why this caller may not use the session, if so."""
    if not access.may(caller, "work") and not access.may(caller, "operate"):
        return Forbidden("This needs the scope work.")
    if session is None or not owns(caller, session):
        return NotFound("There is no such session, or it has ended: register again.")
    return None


def heartbeat_every_s(session_id: int, pool_id: int, times: Mapping[str, Any]) -> float:
    """What every answer to this session says about the seconds between its heartbeats.

    `times` has the pool's `heartbeat_every_s` and `lease_ttl_s`.
    """
    return lease.heartbeat_every_s(times["heartbeat_every_s"], times["lease_ttl_s"], _fleet_size(pool_id), session_id)


def longest_every_s(pool_id: int, times: Mapping[str, Any]) -> float:
    """The longest seconds between heartbeats that any session of the pool is told."""
    return lease.longest_every_s(times["heartbeat_every_s"], times["lease_ttl_s"], _fleet_size(pool_id))


def _fleet_size(pool_id: int) -> int:
    """How many sessions a pool has, at most FLEET_AGE_S old."""
    with _fleet_lock:
        at, count = _fleet.get(pool_id, (0.0, 0))
    if time.monotonic() - at < FLEET_AGE_S and at:
        return count
    count = int(db.tuples("fleet_size", {"pool_id": pool_id})[0][0])
    with _fleet_lock:
        _fleet[pool_id] = (time.monotonic(), count)
    return count
