"""Operators' routes beside the policy: keys, numbers, audit."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router

from dispatch import downloads
from dispatch.api import answers
from dispatch.api import schemas_policy as schemas
from dispatch.api.app import PROBLEMS, caller, check_query, verb
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_tasks import ListQuery
from dispatch.errors import Invalid, NotFound
from dispatch.services import audit, keys, stats

router = Router(tags=["operations"])


@verb(router, "GET", "/me", "get_me", answer=answers.Me)
def get_me(request: HttpRequest) -> dict[str, Any]:
    """What this key is and may do, and what time it is here."""
    return keys.whoami(caller(request))


@verb(router, "GET", "/keys", "list_keys", answer=answers.Items)
def list_keys(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
    """API keys without their secrets."""
    return page(keys.list_keys(caller(request), query.limit, query.cursor))


@verb(router, "POST", "/keys", "create_key", answer=answers.Key, status=201, withheld="key")
def create_key(request: HttpRequest, body: schemas.KeyIn) -> dict[str, Any]:
    """Make an API key; the whole key is in this answer only."""
    return keys.create_key(
        caller(request),
        name=body.name,
        scopes=body.scopes,
        tenant=body.tenant,
        pool=body.pool,
        expires_at=body.expires_at,
    )


@verb(router, "DELETE", "/keys/{int:key_id}", "delete_key", answer=None, status=204)
def delete_key(request: HttpRequest, key_id: int) -> None:
    """Revoke an API key; it ends within 5 s."""
    keys.revoke_key(caller(request), known(key_id))


@verb(router, "GET", "/stats", "get_stats", answer=answers.Stats)
def get_stats(request: HttpRequest, query: Query[schemas.StatsQuery]) -> dict[str, Any]:
    """Depth, ages, waits and shares of a pool over a window."""
    try:
        return stats.stats(caller(request), query.pool, query.window_s)
    except NotFound as missing:  # the pool is a filter here, and an unknown filter value is refused by its name
        raise Invalid(("pool", missing.detail)) from None


@verb(router, "GET", "/audit", "list_audit", answer=answers.Items)
def list_audit(request: HttpRequest, query: Query[schemas.AuditQuery]) -> dict[str, Any]:
    """Who changed what, newest first."""
    filters = query.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    return page(audit.list_audit(caller(request), query.limit, query.cursor, filters))


@router.get(
    "/audit.csv",
    operation_id="export_audit",
    openapi_extra={"responses": {200: {"description": "OK", "content": {"text/csv": {"schema": {"type": "string"}}}}}},
    response={PROBLEMS: answers.Problem},
)
def export_audit(request: HttpRequest, query: Query[schemas.AuditFilter]) -> HttpResponseBase:
    """The same as a sheet, all of it, without formulas."""
    check_query(request, frozenset(schemas.AuditFilter.model_fields))
    rows = audit.export(caller(request), query.model_dump(exclude_none=True))
    return downloads.sheet(request, "audit.csv", audit.EXPORTED, rows)
