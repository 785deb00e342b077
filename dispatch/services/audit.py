"""The audit: who did what to what, with old value, new value and reason; append-only (a trigger blocks the rest).

Accepted commands are recorded inside their own transaction. Refused ones of people and of operate/admin keys are
recorded after the rollback (`refusals`); agents' refusals are only counted, never stored.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dispatch.errors import Forbidden
from dispatch.services import access, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

FILTERS = ("actor", "action", "target_kind", "target", "only")  # `only`: refused, or done
REASON_LENGTH = 2000  # characters kept of a reason


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=str)


def record(
    caller: Caller,
    action: str,
    target_kind: str,
    target: str | int,
    before: Any = None,
    after: Any = None,
    reason: str = "",
    tenant_id: int | None = None,
    refused: bool = False,
) -> None:
    """Append one entry; `before` and `after` are plain JSON values (times become text)."""
    db.execute(
        "insert_audit",
        {
            "actor_kind": caller.kind,
            "actor_id": caller.id,
            "actor_name": caller.name,
            "action": action,
            "target_kind": target_kind,
            "target": str(target).replace("\0", "\ufffd")[:200],
            "tenant_id": tenant_id,
            "before": _json(before),
            "after": _json(after),
            "reason": reason[:REASON_LENGTH],
            "request_id": caller.request_id,
            "refused": refused,
        },
    )


@contextmanager
def refusals(caller: Caller, action: str, target_kind: str, target: str | int) -> Iterator[None]:
    """Around a command's transaction: record a refusal of a person or an operate/admin key, then let it go on."""
    try:
        yield
    except (Forbidden, access.Hidden) as refusal:
        if caller.kind == "user" or caller.scopes & {"operate", "admin"}:
            record(caller, action, target_kind, target, reason=refusal.detail, refused=True)
        raise


def list_audit(
    caller: Caller, limit: int = 100, cursor: str | None = None, filters: Mapping[str, str] | None = None
) -> Page:
    """Entries newest first, FILTERS by exact value; people and keys of a tenant see those about their tenant only."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    below = paging.decode("audit", cursor)[0] if cursor else 2**63 - 1
    narrow = {"tenants": access.visible_tenants(caller), "refused": True, "system": True}
    given = dict.fromkeys(FILTERS) | {name: (filters or {}).get(name) or None for name in FILTERS}
    found = db.rows("list_audit", {"below": below, "limit": limit + 1, **narrow, **given})
    return paging.page("audit", found, limit, lambda row: [row["id"]])
