"""The policy: create, get, list, patch, delete pools, classes, tenants, tools and capabilities.

Reading needs `read` (or `submit`, `work`: names are no secret inside an installation; tenants are: a bound caller sees
its own only). Writing needs `operate` for the whole installation; with `operate` inside one tenant its own limits may
be lowered, and raised again up to the operators' ceiling (core/ceilings.py). Every edit checks the version it was
based on, leaves an audit entry and a history row, and acts at the next dispatch cycle on work that is already queued.
Answers carry `warnings` (contract: they never refuse a call) where an edit may not do what its maker wants.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.postgres.functions import TransactionNow

from dispatch import events
from dispatch.core import ceilings, validate
from dispatch.core.budgets import FOLLOWING
from dispatch.core.types import MICRO
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound, VersionConflict
from dispatch.services import access, audit, clock, paging, policy_rules
from dispatch.services.messages import Caller, Page
from dispatch.store import budget_rows, db
from dispatch.store import policy as store

DEFAULT_POOL = "default"
KINDS = tuple(validate.FIELDS)
READERS = ("read", "submit", "work")
PAUSE = ("paused_at", "paused_until", "paused_by", "pause_reason")


def show(kind: str, row: store.Row) -> dict[str, Any]:
    """The object as the API shows it: its fields, `version`, who paused it, when it was made and changed."""
    shown: dict[str, Any] = {"slug": row.slug}
    for name in validate.FIELDS[kind]:
        shown[name] = row.pool.slug if name == "pool" else getattr(row, name)
    if "paused" in shown:
        active = row.paused and (row.paused_until is None or row.paused_until > clock.now())
        shown |= {"paused": active} | {name: getattr(row, name) if active else None for name in PAUSE}
    if kind == "tenant":
        shown |= {"ceilings": row.ceilings, "paused_within": shown["paused"] and row.paused_within}
    return shown | {"version": row.version, "created_at": row.created_at, "updated_at": row.updated_at}


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise NotFound(f"There is no kind of object named {kind}.")
    return kind


def _read(caller: Caller) -> None:
    if not any(access.may(caller, scope) for scope in READERS):
        raise Forbidden("This needs the scope read.")


def find(caller: Caller, kind: str, slug: str, *, lock: bool = False) -> store.Row:
    """The row of one object; NotFound when it is missing, Hidden when it is not this caller's to see."""
    missing = f"There is no {kind} {slug}." if validate.is_slug(slug) else f"There is no such {kind}."
    row = store.find(kind, slug, lock=lock) if validate.is_slug(slug) else None
    if row is None:
        raise NotFound(missing)
    pool_id = {"pool": row.pk, "class": getattr(row, "pool_id", None)}.get(kind)
    hidden = kind == "tenant" and not access.sees_tenant(caller, row.pk)
    if hidden or (pool_id is not None and caller.pool_id not in {None, pool_id}):
        raise access.Hidden(missing)
    return row


def get(caller: Caller, kind: str, slug: str) -> dict[str, Any]:
    """One object; NotFound when it is missing or another tenant's."""
    _read(caller)
    return show(kind, find(caller, _kind(kind), slug))


def list_(caller: Caller, kind: str, limit: int = 100, cursor: str | None = None) -> Page:
    """Objects of one kind in the order of their names."""
    _kind(kind)
    _read(caller)
    limit = paging.check_limit(limit)
    after = paging.decode(kind, cursor)[0] if cursor else ""
    ids = access.visible_tenants(caller) if kind == "tenant" else None
    pool_id = caller.pool_id if kind in {"pool", "class"} else None
    found = [show(kind, row) for row in store.page(kind, after, limit + 1, ids, pool_id)]
    return paging.page(kind, found, limit, lambda item: [item["slug"]])


def create(caller: Caller, kind: str, slug: str, fields: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Make an object (scope `operate`); `fields` may be empty. A name that is taken: Conflict."""
    with audit.refusals(caller, f"create_{_kind(kind)}", kind, slug), db.atomic():
        access.require_everywhere(caller, "operate")
        values = _checked(kind, {"slug": slug, **fields})
        del values["slug"]
        _reason(reason, needed=False)
        if kind == "class":
            values["pool"] = _pool(caller, values.get("pool", DEFAULT_POOL))
        _pausing(caller, kind, values, reason)
        with store.history(actor=caller.name, reason=reason, request_id=caller.request_id):
            row = store.insert(kind, slug, values)
        if row is None:
            raise Conflict(f"There is a {kind} {slug} already.")
        warnings = policy_rules.check(kind, row, frozenset(fields))
        _follow(caller, kind, row, reason)
        shown = show(kind, row)
        audit.record(caller, f"create_{kind}", kind, slug, after=shown, reason=reason, tenant_id=_tenant(kind, row))
        _hint(kind, row)
    return shown | {"warnings": warnings}


def patch(
    caller: Caller, kind: str, slug: str, version: int, changes: Mapping[str, Any], reason: str
) -> dict[str, Any]:
    """Edit an object (scope `operate`) that still has `version`; else VersionConflict with it as it is now.

    A department edits its own tenant's limits only, inside the operators' ceiling (Invalid on the field above it).
    """
    with audit.refusals(caller, f"patch_{_kind(kind)}", kind, slug), db.atomic():
        access.require(caller, "operate")
        row = find(caller, kind, slug, lock=True)
        _permit(caller, kind, row, changes)
        before = show(kind, row)
        values = _checked(kind, changes, before)
        _reason(reason, needed=True)
        if problem := validate.whole(version, 0, 2**31 - 1):
            raise Invalid(("version", problem))
        if row.version != version:
            raise VersionConflict(f"The {kind} {slug} has version {row.version} by now.", current=before)
        if values.get("paused") == before.get("paused"):
            values.pop("paused", None)  # the pause stays as it is, with its author and end
        _pausing(caller, kind, values, reason)
        values |= _ceilings(caller, kind, row, values)
        with store.history(actor=caller.name, reason=reason, request_id=caller.request_id):
            store.update(kind, row.pk, version, values)
        row = find(caller, kind, slug)
        warnings = policy_rules.check(kind, row, frozenset(values))
        _follow(caller, kind, row, reason)
        after = show(kind, row)
        audit.record(caller, f"patch_{kind}", kind, slug, before, after, reason, _tenant(kind, row))
        _hint(kind, row)
    return after | {"warnings": warnings}


def check(caller: Caller, kind: str, slug: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Judge an edit without making it: `errors`, `warnings` (field, message) and the object as it is (`current`)."""
    access.require_everywhere(caller, "operate")
    row = find(caller, _kind(kind), slug)
    current = show(kind, row)
    try:
        values = _checked(kind, changes, current)
        for name, value in values.items():
            setattr(row, name, value)  # never saved
        warnings = policy_rules.check(kind, row, frozenset(values))
    except Invalid as refusal:
        return {"errors": refusal.errors, "warnings": [], "current": current}
    return {"errors": [], "warnings": warnings, "current": current}


def delete(caller: Caller, kind: str, slug: str, reason: str = "") -> None:
    """Take an object away (scope `operate`). Conflict, with numbers, while tasks wait or run under it.

    It is archived: gone for everybody, its tasks and history stay readable, and making the name again revives it.
    Keys bound to it are revoked.
    """
    with audit.refusals(caller, f"delete_{_kind(kind)}", kind, slug), db.atomic():
        access.require(caller, "operate")
        row = find(caller, kind, slug, lock=True)
        access.require_everywhere(caller, "operate")
        _reason(reason, needed=False)
        if kind == "pool" and slug == DEFAULT_POOL:
            raise Conflict("The pool default always exists.")
        left = db.rows("policy_live_work", {"kind": kind, "id": row.pk, "slug": slug})[0]
        if any(left.values()):
            numbers = ", ".join(f"{count} {name}" for name, count in left.items() if count)
            raise Conflict(f"The {kind} {slug} is in use: {numbers}.", **left)
        with store.history(actor=caller.name, reason=reason, request_id=caller.request_id):
            store.archive(kind, row.pk)
        db.execute("policy_revoke_keys", {"kind": kind, "id": row.pk})
        audit.record(caller, f"delete_{kind}", kind, slug, show(kind, row), None, reason, _tenant(kind, row))
        _hint(kind, row)
    access.forget_keys()


def _checked(kind: str, values: Mapping[str, Any], current: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values when each one is good by itself; a fixed field may only be repeated as it is."""
    given = dict(values)
    problems = []
    if current is None and (problem := validate.slug(given["slug"])):
        problems.append(("slug", problem))
    if current is not None and "slug" in given and given.pop("slug") != current["slug"]:
        problems.append(("slug", "cannot be changed"))
    problems += validate.fields(kind, {name: value for name, value in given.items() if name != "slug"})
    if problems:
        raise Invalid(*problems)
    for name, field in validate.FIELDS[kind].items():
        if current is not None and field.fixed and name in given and given.pop(name) != current[name]:
            raise Invalid((name, "cannot be changed"))
    return given


def _permit(caller: Caller, kind: str, row: store.Row, changes: Mapping[str, Any]) -> None:
    """Operators change anything; a department the limits of its own tenant."""
    if access.operates(caller):
        return
    if kind != "tenant":
        access.require_everywhere(caller, "operate")
    access.require(caller, "operate", row.pk)
    if theirs := sorted(set(changes) - set(ceilings.OWN)):
        raise Forbidden(f"Only operators change {', '.join(theirs)}; a department may ask with a quota request.")


def _ceilings(caller: Caller, kind: str, row: store.Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """The operators' values where the department now has lower ones."""
    if kind != "tenant":
        return {}
    if access.operates(caller):
        return {"ceilings": ceilings.given(row.ceilings, values)}
    now = {name: getattr(row, name) for name in ceilings.OWN}
    problems, after = ceilings.lowered(now, row.ceilings, values)
    if problems:
        raise Invalid(*problems)
    return {"ceilings": after}


def _reason(reason: str, *, needed: bool) -> None:
    if problem := validate.text(reason, int(needed), audit.REASON_LENGTH):
        raise Invalid(("reason", problem))


def _pool(caller: Caller, slug: str) -> store.Row:
    row = store.find("pool", slug, lock=False)
    if row is None or caller.pool_id not in {None, row.pk}:
        raise Invalid(("pool", "there is no such pool"))
    return row


def _pausing(caller: Caller, kind: str, values: dict[str, Any], reason: str) -> None:
    """A pause knows since when, by whom and why; a resume leaves its time in `paused_until` (queue age counts on)."""
    if "paused" in values:
        values["paused_at"] = TransactionNow() if values["paused"] else None
        values["paused_until"] = None if values["paused"] else TransactionNow()
        values["paused_by"], values["pause_reason"] = (caller.name, reason) if values["paused"] else ("", "")
        if kind == "tenant":
            values["paused_within"] = False  # only operators get here


def _follow(caller: Caller, kind: str, row: store.Row, reason: str) -> None:
    """A tenant's `cost_budget` and `budget_window_s` are its budget `default`."""
    if kind == "tenant":
        values = None
        if row.cost_budget is not None:
            values = {"amount": round(row.cost_budget * MICRO), "span_s": row.budget_window_s, "follows": True}
        history = {"actor": caller.name, "reason": reason, "request_id": caller.request_id}
        if changed := budget_rows.follow(row.pk, FOLLOWING, values, history=history):
            db.execute("forgive_budget", {"id": changed})


def _tenant(kind: str, row: store.Row) -> int | None:
    return int(row.pk) if kind == "tenant" else None


def _hint(kind: str, row: store.Row) -> None:
    """Wake the dispatchers concerned: an edit acts at their next cycle."""
    pools = {"pool": [row.pk], "class": [getattr(row, "pool_id", 0)], "capability": []}
    db.hint(events.POOL, pools[kind] if kind in pools else [pool.pk for pool in store.all_of("pool")])
    db.hint(events.LIVE, f"policy:{kind}")
