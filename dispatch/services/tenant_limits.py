"""Limits inside one tenant: of its users, and of itself in single classes (all per pool, like every slot limit).

Operators and the department set them (`operate`, for the whole installation or in that tenant). What an operator sets
is the department's ceiling: it may go lower, and up to it again, never above; taking a limit away brings the ceiling
back. Every edit is audited, leaves a history row and acts at the next dispatch cycle.
`kind` is "user" (fields max, weight) or "class" (field max).
"""

from collections.abc import Mapping
from typing import Any

from dispatch import events
from dispatch.core import ceilings, validate
from dispatch.errors import Invalid, NotFound, VersionConflict
from dispatch.services import access, audit, paging, policy
from dispatch.services.messages import Caller, Page
from dispatch.store import db
from dispatch.store import policy as policy_store
from dispatch.store import tenant_limits as store

FIELDS: Mapping[str, Mapping[str, validate.Field]] = {
    "user": {"max": validate.Field("whole", null=True), "weight": validate.Field("weight")},
    "class": {"max": validate.Field("whole", null=True)},
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {"user": {"max": None, "weight": 1.0}, "class": {"max": None}}


def list_limits(caller: Caller, tenant: str, kind: str, limit: int = 100, cursor: str | None = None) -> Page:
    """The users of a tenant, or its limits in classes, in the order of their names (scope `read`).

    Items: {"user"|"class": name, "max", "weight" (users), "ceiling" (None: none), "version"}.
    """
    row = _tenant(caller, tenant, "read")
    limit = paging.check_limit(limit)
    after = paging.decode(f"tenant_{kind}", cursor)[0] if cursor else ""
    found = [_shown(kind, one) for one in store.page(kind, row.pk, after, limit + 1)]
    return paging.page(f"tenant_{kind}", found, limit, lambda item: [item[kind]])


def get(caller: Caller, tenant: str, kind: str, name: str) -> dict[str, Any]:
    """One user or class limit (scope `read`); NotFound for a user that never submitted and a class without a limit."""
    row = _tenant(caller, tenant, "read")
    return _shown(kind, _find(kind, row.pk, name))


def put(
    caller: Caller,
    tenant: str,
    kind: str,
    name: str,
    fields: Mapping[str, Any],
    version: int | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """Set all fields of a user or class limit (left out: the default). `version`, where given, must still be its own.

    Raises Invalid on the field (also above the ceiling), VersionConflict, NotFound.
    """
    with audit.refusals(caller, f"put_tenant_{kind}", f"tenant_{kind}", f"{tenant}/{name}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        key = _key(caller, kind, name)
        values = dict(DEFAULTS[kind]) | _checked(kind, fields, reason)
        old = store.find(kind, row.pk, name, lock=True)
        before = None if old is None else _shown(kind, old)
        if version is not None and (old is None or old.version != version):
            raise VersionConflict("Somebody else saved first.", current=before)
        values["ceiling"] = _ceiling(caller, values["max"], old)
        _write(caller, kind, row, key, name, values, before, reason)
        return _shown(kind, _find(kind, row.pk, name))


def delete(caller: Caller, tenant: str, kind: str, name: str, reason: str = "") -> None:
    """Take a limit away: the user or class has the defaults again, or the operators' ceiling where there is one."""
    with audit.refusals(caller, f"delete_tenant_{kind}", f"tenant_{kind}", f"{tenant}/{name}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        values = dict(DEFAULTS[kind]) | _checked(kind, {}, reason)
        old = _find(kind, row.pk, name, lock=True)
        values["ceiling"] = None if access.operates(caller) else old.ceiling
        values["max"] = values["ceiling"]
        key = old.name if kind == "user" else old.work_class_id
        _write(caller, kind, row, key, name, values, _shown(kind, old), reason)


def _tenant(caller: Caller, slug: str, scope: str) -> policy_store.Row:
    access.require(caller, scope)
    row = policy.find(caller, "tenant", slug)
    access.require(caller, scope, row.pk)
    return row


def _key(caller: Caller, kind: str, name: str) -> str | int:
    if kind == "class":
        return int(policy.find(caller, "class", name).pk)
    if not validate.is_slug(name) and name != validate.NO_USER:
        raise NotFound("There is no such user.")
    return name


def _find(kind: str, tenant_id: int, name: str, *, lock: bool = False) -> store.Row:
    row = store.find(kind, tenant_id, name, lock=lock) if validate.storable(name) else None
    if row is None:
        raise NotFound("There is no such user." if kind == "user" else "The tenant has no limit in such a class.")
    return row


def _checked(kind: str, fields: Mapping[str, Any], reason: str) -> dict[str, Any]:
    problems = validate.each(FIELDS[kind], fields)
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if problems:
        raise Invalid(*problems)
    return dict(fields)


def _ceiling(caller: Caller, most: int | None, old: store.Row | None) -> int | None:
    """An operator's maximum is the new ceiling; a department's must keep to the old one."""
    if access.operates(caller):
        return most
    ceiling = None if old is None else old.ceiling
    if ceilings.above(most, ceiling):
        raise Invalid(("max", ceilings.sentence(ceiling)))
    return ceiling


def _write(
    caller: Caller,
    kind: str,
    tenant: policy_store.Row,
    key: str | int,
    name: str,
    values: Mapping[str, Any],
    before: dict[str, Any] | None,
    reason: str,
) -> None:
    with policy_store.history(actor=caller.name, reason=reason, request_id=caller.request_id):
        store.put(kind, tenant.pk, key, values)
    after = {"max": values["max"], "ceiling": values["ceiling"]}
    if kind == "user":
        after["weight"] = values["weight"]
    target = f"{tenant.slug}/{name}"
    audit.record(caller, f"put_tenant_{kind}", f"tenant_{kind}", target, before, after, reason, tenant.pk)
    db.hint(events.POOL, "")
    db.hint(events.LIVE, "policy:tenant")


def _shown(kind: str, row: store.Row) -> dict[str, Any]:
    shown: dict[str, Any] = {kind: store.name_of(kind, row), "max": row.max}
    if kind == "user":
        shown["weight"] = row.weight
    return shown | {"ceiling": row.ceiling, "version": row.version}
