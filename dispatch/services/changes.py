"""Changes: ended tasks in the order of their ends, so that submitters learn results without asking for each task.

Read with the cursor of the last answer, for ever; each end is told once (a task that is requeued and ends again is told
again). Nothing is missed: ends that a running transaction may still commit hold the rest back until they are visible,
which takes milliseconds.
"""

from datetime import UTC, datetime
from typing import Any

from dispatch.core import validate
from dispatch.core.states import State
from dispatch.errors import Invalid
from dispatch.services import access, paging
from dispatch.services.messages import Caller
from dispatch.store import db

START = (datetime(1970, 1, 1, tzinfo=UTC).isoformat(), 0)


def list_changes(
    caller: Caller, cursor: str | None = None, limit: int = 100, tenant: str | None = None
) -> dict[str, Any]:
    """{"items", "next_cursor", "more"} (scope `read`); `next_cursor` is never null: ask again with it, later or now."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    after, after_id = paging.decode("changes", cursor) if cursor else START
    tenants = _tenants(caller, tenant)
    horizon = db.rows("changes_horizon")[0]["horizon"]  # before the rows: see the statement
    params = {
        "tenants": tenants,
        "pool_id": caller.pool_id,
        "after": datetime.fromisoformat(after),
        "after_id": after_id,
        "horizon": horizon,
        "limit": limit + 1,
    }
    found = db.rows("list_changes", params)
    items = found[:limit]
    last = (items[-1]["finished_at"].isoformat(), items[-1]["id"]) if items else (after, after_id)
    for item in items:
        item["state"] = State(item["state"]).word
        item["reason"] = item["reason"] or None
    return {"items": items, "next_cursor": paging.encode("changes", list(last)), "more": len(found) > limit}


def _tenants(caller: Caller, slug: str | None) -> list[int] | None:
    visible = access.visible_tenants(caller)
    if slug is None:
        return visible
    row = db.one("find_slug", {"kind": "tenant", "slug": slug}) if validate.is_slug(slug) else None
    if row is None or (visible is not None and row["id"] not in visible):
        raise Invalid(("tenant", "there is no such tenant"))
    return [row["id"]]
