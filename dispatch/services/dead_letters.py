"""Dead letters: what died, and of what. A group is everything that died of the same fingerprint and reason."""

from collections.abc import Mapping
from typing import Any

from dispatch.core.states import State
from dispatch.errors import Invalid
from dispatch.services import access, paging, task_list
from dispatch.services.messages import Caller, Page
from dispatch.store import db

DEAD = State.DEAD.word


def list_dead(caller: Caller, filters: Mapping[str, Any], limit: int = 100, cursor: str | None = None) -> Page:
    """Dead tasks by the filters of the task list and `fingerprint` (scope `read`), newest death first."""
    if filters.get("state") not in {None, DEAD}:
        raise Invalid(("state", "dead letters are dead"))
    given = {"order": "-finished_at"} | {name: value for name, value in filters.items() if value is not None}
    return task_list.list_tasks(caller, given | {"state": DEAD}, limit, cursor)


def list_groups(caller: Caller, limit: int = 100, cursor: str | None = None) -> Page:
    """Groups of dead letters, the largest first (scope `read`); a tenant's caller counts its own only."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    count, fingerprint, reason = paging.decode("groups", cursor) if cursor else (None, "", "")
    found = db.rows(
        "dead_groups",
        {
            "tenants": access.visible_tenants(caller),
            "pool_id": caller.pool_id,
            "count": count,
            "fingerprint": fingerprint,
            "reason": reason,
            "limit": limit + 1,
        },
    )
    return paging.page("groups", found, limit, lambda row: [row["count"], row["fingerprint"], row["reason"]])
