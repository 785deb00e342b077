"""Sessions of workers: who may use one. Only the key that opened a session, or a caller with `operate`, may.

Anybody else hears NotFound, the same as for a session that ended or never was.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dispatch.errors import EvenflowError, Forbidden, NotFound
from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.store import db

MAX_ID = 2**63 - 1


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
