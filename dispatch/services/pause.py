"""Pause and resume: nothing new starts in a scope; what runs goes on, submits are taken, ages count as limited.

Scopes: all (every pool there is), pool, class, tenant, tool, worker (by its name). A pause knows its author, its reason
and, where given, its end; it is a column of what it stops, so it survives every restart, holds for retries, requeues
and due schedules alike, and is over when its time is (the dispatcher asks the database's clock each cycle).
Pausing again replaces author, reason and end. Resuming what is not paused changes nothing and leaves no audit entry.
The administrators of a tenant, and its keys with `operate`, pause and resume their own tenant; a pause that somebody
else has put on it stays theirs (`paused_within` of the row tells, whatever anybody is called).
"""

from datetime import datetime
from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.errors import Forbidden, Invalid
from dispatch.services import access, audit
from dispatch.services.messages import Caller
from dispatch.store import db
from dispatch.store import policy as store

SCOPES = ("all", "pool", "class", "tenant", "tool", "worker")
SHOWN = ("paused", "paused_at", "paused_until", "paused_by", "pause_reason")


def pause(
    caller: Caller,
    scope: str,
    slug: str | None,
    reason: str,
    until: datetime | None = None,
    pool: str | None = None,
) -> dict[str, Any]:
    """Pause a scope (`operate`; inside a tenant: that tenant only). `pool` tells workers of one name apart."""
    return _set(caller, "pause", scope, slug, reason, until, pool)


def resume(caller: Caller, scope: str, slug: str | None, reason: str, pool: str | None = None) -> dict[str, Any]:
    """Take the pause off a scope; resuming `all` resumes every pool. Its queue ages count from now on."""
    return _set(caller, "resume", scope, slug, reason, None, pool)


def _set(
    caller: Caller,
    verb: str,
    scope: str,
    slug: str | None,
    reason: str,
    until: datetime | None,
    pool: str | None,
) -> dict[str, Any]:
    kind, target = ("pool", "all") if scope == "all" else (scope, slug or "")
    with audit.refusals(caller, verb, kind, target), db.atomic():
        _permit(caller, scope)
        _check(scope, slug, reason, until, pool)
        rows = _rows(caller, scope, slug, pool)
        if not access.operates(caller):
            _permit_own(caller, rows[0])
        changing = [row for row in rows if verb == "pause" or row.paused]
        before = _state(changing[0]) if changing else {}
        with store.history(actor=caller.name, reason=reason, request_id=caller.request_id):
            store.set_pause(
                kind,
                [row.pk for row in changing],
                verb == "pause",
                caller.name,
                reason,
                until,
                within=not access.operates(caller),
            )
        if changing:
            tenant_id = rows[0].pk if scope == "tenant" else None
            after = {"paused": verb == "pause", "paused_until": until}
            audit.record(caller, verb, kind, target, before, after, reason, tenant_id)
            db.hint(events.POOL, "")
            db.hint(events.LIVE, f"policy:{kind}")
    return {
        "scope": scope,
        "slug": slug,
        "paused": verb == "pause",
        "until": until,
        "reason": reason,
        "by": caller.name,
        "changed": len(changing),
    }


def _state(row: store.Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SHOWN}


def _permit(caller: Caller, scope: str) -> None:
    if scope == "tenant" and not access.operates(caller):
        access.require(caller, "operate")
    else:
        access.require_everywhere(caller, "operate")
    if caller.pool_id is not None and scope in {"all", "tenant", "tool"}:
        raise Forbidden("A key of one pool pauses that pool, its classes and its workers only.")


def _permit_own(caller: Caller, tenant: store.Row) -> None:
    """Whether somebody of a tenant may pause or resume it now."""
    access.require(caller, "operate", tenant.pk)
    if tenant.paused and not tenant.paused_within:
        raise Forbidden(
            f"{tenant.paused_by} has paused the tenant for the whole installation; an operator takes that off."
        )


def _check(scope: str, slug: str | None, reason: str, until: datetime | None, pool: str | None) -> None:
    problems = []
    if scope not in SCOPES:
        problems.append(("scope", f"must be one of {', '.join(SCOPES)}"))
    if (scope == "all") != (slug is None):
        problems.append(("slug", "must be left out for all, and named for every other scope"))
    if pool is not None and scope != "worker":
        problems.append(("pool", "is for workers only"))
    if problem := validate.text(reason, 1, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if until is not None and (problem := validate.moment(until) or _past(until)):
        problems.append(("until", problem))
    if problems:
        raise Invalid(*problems)


def _past(until: datetime) -> str | None:
    return None if db.tuples("is_future", {"at": until})[0][0] else "must be in the future"


def _rows(caller: Caller, scope: str, slug: str | None, pool: str | None) -> list[store.Row]:
    """What the scope names, locked; a name that is unknown, or not of the caller's pool or tenant, is Invalid."""
    rows = store.pausable("pool" if scope == "all" else scope, slug, caller.pool_id)
    if scope == "tenant":
        rows = [row for row in rows if access.sees_tenant(caller, row.pk)]
    if scope == "worker" and pool is not None:
        rows = [row for row in rows if row.pool.slug == pool]
    if not rows:
        raise Invalid(("slug", f"there is no such {scope}"))
    if scope == "worker" and len(rows) > 1:
        raise Invalid(("pool", f"{len(rows)} pools have a worker of this name"))
    return rows
