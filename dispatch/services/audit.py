"""The audit: who did what to what, with old value, new value and reason; append-only (a trigger blocks the rest).

Accepted commands are recorded inside their own transaction. Refused ones of people and of operate/admin keys are
recorded after the rollback (`refusals`); agents' refusals are only counted, never stored.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dispatch.core import validate
from dispatch.errors import Forbidden, Invalid
from dispatch.services import access, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

REASON_LENGTH = 2000  # characters kept of a reason
EXPORTED = (
    *("id", "at", "actor_kind", "actor_name", "action", "target_kind", "target", "refused"),
    *("reason", "before", "after", "request_id"),
)
FILTERS = ("actor", "action", "target_kind", "target", "only", "tenant")  # `only`: refused, or done
TIMES = ("since", "until")
NO_FILTERS: Mapping[str, Any] = {"refused": True, "system": True} | dict.fromkeys((*FILTERS[:-1], *TIMES))
LONGEST = 320  # characters of a filter


refused_agents: Counter[str] = Counter()  # of this process: refused commands of keys that command nothing, by action


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
        else:
            refused_agents[action] += 1
        raise


def list_audit(
    caller: Caller, limit: int = 100, cursor: str | None = None, filters: Mapping[str, Any] | None = None
) -> Page:
    """Entries newest first (scope `read`); people and keys of a tenant see those about their tenant only.

    `filters`, all met: FILTERS by exact value (an empty one asks for nothing), and TIMES: from `since`, before `until`.
    """
    limit = paging.check_limit(limit)
    below = paging.decode("audit", cursor)[0] if cursor else 2**63 - 1
    found = db.rows("list_audit", {"below": below, "limit": limit + 1, **_asked(caller, filters or {})})
    return paging.page("audit", found, limit, lambda row: [row["id"]])


def export(caller: Caller, filters: Mapping[str, Any] | None = None) -> Iterator[list[Any]]:
    """All matching entries newest first as rows of a sheet (EXPORTED names the columns), read page by page."""
    asked = _asked(caller, filters or {})

    def rows() -> Iterator[list[Any]]:
        below = 2**63 - 1
        while found := db.rows("list_audit", {"below": below, "limit": paging.MAX_LIMIT, **asked}):
            for row in found:
                yield [_json(row[name]) if name in {"before", "after"} else row[name] for name in EXPORTED]
            below = found[-1]["id"]

    return rows()


def _asked(caller: Caller, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the statement list_audit; Forbidden and Invalid are raised here, before anything is sent."""
    access.require(caller, "read")
    problems = [(name, problem) for name, value in filters.items() if (problem := _problem(name, value))]
    if problems:
        raise Invalid(*problems)
    given = dict(NO_FILTERS) | {name: value or None for name, value in filters.items() if name != "tenant"}
    tenants = access.visible_tenants(caller)
    if slug := filters.get("tenant"):
        row = db.one("find_slug", {"kind": "tenant", "slug": slug}) if validate.is_slug(slug) else None
        if row is None or not access.sees_tenant(caller, row["id"]):
            raise Invalid(("tenant", "there is no such tenant"))
        tenants = [row["id"]]
    return given | {"tenants": tenants}


def _problem(name: str, value: Any) -> str | None:
    if name not in FILTERS + TIMES:
        return "is not a filter of the audit"
    if name in TIMES:
        return validate.moment(value)
    if name == "only" and value not in {"", "refused", "done"}:
        return "must be refused or done"
    return validate.text(value, 0, LONGEST)
