"""Requests for more: a department asks (`operate` in its tenant), operators answer; both are audited.

A request names limits of the tenant (`changes`: nominal and those of core/ceilings.py, cost_budget) and maxima in
classes (`classes`: class → maximum or None), and a reason. Approving sets all of them at once through the services of
the policy, or none: `version` must be the tenant's own at that moment, so nobody approves what they have not seen.
States: open, approved, refused, withdrawn.
"""

from collections.abc import Mapping
from typing import Any

from dispatch import events
from dispatch.core import ceilings, validate
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.models import QuotaRequest
from dispatch.services import access, audit, paging, policy, tenant_limits
from dispatch.services.messages import Caller, Page
from dispatch.store import db
from dispatch.store import quota_requests as store

FIELDS = ("nominal", "cost_budget", *ceilings.OWN)
STATES = ("open", "approved", "refused", "withdrawn")
MISSING = "There is no such request."
MAX_OPEN = 20  # of one tenant


def create(
    caller: Caller, tenant: str, changes: Mapping[str, Any], classes: Mapping[str, Any], reason: str
) -> dict[str, Any]:
    """Ask for more. Raises Invalid on the field, Conflict when MAX_OPEN requests of the tenant are open."""
    with audit.refusals(caller, "create_quota_request", "quota_request", tenant), db.atomic():
        access.require(caller, "operate")
        row = policy.find(caller, "tenant", tenant, lock=True)
        access.require(caller, "operate", row.pk)
        _check(caller, changes, classes, reason)
        if store.count_open(row.pk) >= MAX_OPEN:
            raise Conflict(f"{MAX_OPEN} requests of this tenant are open already.")
        made = store.insert(row.pk, dict(changes), dict(classes), reason, caller.name)
        after = {"changes": dict(changes), "classes": dict(classes)}
        audit.record(caller, "create_quota_request", "quota_request", made.pk, None, after, reason, row.pk)
        db.hint(events.LIVE, "quota_requests")
        return _shown(store.find(made.pk))


def list_requests(
    caller: Caller, state: str | None = None, tenant: str | None = None, limit: int = 100, cursor: str | None = None
) -> Page:
    """Requests newest first (scope `read`); those of the tenants that the caller may see."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    if state is not None and state not in STATES:
        raise Invalid(("state", f"must be one of {', '.join(STATES)}"))
    ids = access.visible_tenants(caller)
    if tenant is not None:
        ids = [policy.find(caller, "tenant", tenant).pk]
    below = paging.decode("quota_requests", cursor)[0] if cursor else 2**63 - 1
    found = [_shown(row) for row in store.page(below, limit + 1, ids, state)]
    return paging.page("quota_requests", found, limit, lambda item: [item["id"]])


def get(caller: Caller, request_id: int) -> dict[str, Any]:
    """One request with the tenant's limits as they are (`current`, with its `version`) (scope `read`)."""
    access.require(caller, "read")
    return _with_current(caller, _find(caller, request_id))


def preview(caller: Caller, request_id: int) -> dict[str, Any]:
    """What approving would do, for operators: `errors`, `warnings` (field, message) and `current` (policy.check)."""
    row = _find(caller, request_id)
    return policy.check(caller, "tenant", row.tenant.slug, row.changes)


def approve(caller: Caller, request_id: int, version: int, note: str = "") -> dict[str, Any]:
    """Give what was asked for, all or nothing (operators). Raises Conflict when it is answered already,
    VersionConflict when the tenant has another version by now, Invalid where the policy forbids it."""
    with audit.refusals(caller, "approve_quota_request", "quota_request", request_id), db.atomic():
        row = _open(caller, request_id, note)
        access.require_everywhere(caller, "operate")
        reason = f"quota request {row.pk}: {row.reason}"[: audit.REASON_LENGTH]
        policy.patch(caller, "tenant", row.tenant.slug, version, row.changes, reason)
        for name, most in row.classes.items():
            tenant_limits.put(caller, row.tenant.slug, "class", name, {"max": most}, reason=reason)
        return _answer(caller, row, "approved", note)


def refuse(caller: Caller, request_id: int, note: str) -> dict[str, Any]:
    """Say no, and why (operators)."""
    with audit.refusals(caller, "refuse_quota_request", "quota_request", request_id), db.atomic():
        row = _open(caller, request_id, note, needed=True)
        access.require_everywhere(caller, "operate")
        return _answer(caller, row, "refused", note)


def withdraw(caller: Caller, request_id: int, note: str = "") -> dict[str, Any]:
    """Take an open request back (`operate` in its tenant)."""
    with audit.refusals(caller, "withdraw_quota_request", "quota_request", request_id), db.atomic():
        return _answer(caller, _open(caller, request_id, note), "withdrawn", note)


def _check(caller: Caller, changes: Mapping[str, Any], classes: Mapping[str, Any], reason: str) -> None:
    problems = [(name, "is not a limit that can be asked for") for name in changes if name not in FIELDS]
    known = {name: value for name, value in changes.items() if name in FIELDS}
    problems += validate.fields("tenant", known)
    for name, most in classes.items():
        try:
            policy.find(caller, "class", name)
        except NotFound as missing:
            problems.append((f"classes.{name}", missing.detail))
        if problem := tenant_limits.FIELDS["class"]["max"](most):
            problems.append((f"classes.{name}", problem))
    if not changes and not classes:
        problems.append(("changes", "must name at least one limit"))
    if problem := validate.text(reason, 1, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if problems:
        raise Invalid(*problems)


def _find(caller: Caller, request_id: int, *, lock: bool = False) -> QuotaRequest:
    row = store.find(request_id, lock=lock) if 0 < request_id < 2**63 else None
    if row is None:
        raise NotFound(MISSING)
    if not access.sees_tenant(caller, row.tenant_id):
        raise access.Hidden(MISSING)
    return row


def _open(caller: Caller, request_id: int, note: str, *, needed: bool = False) -> QuotaRequest:
    access.require(caller, "operate")
    row = _find(caller, request_id, lock=True)
    access.require(caller, "operate", row.tenant_id)
    if problem := validate.text(note, int(needed), audit.REASON_LENGTH):
        raise Invalid(("note", problem))
    if row.state != "open":
        raise Conflict(f"The request is {row.state} already.", state=row.state)
    return row


def _answer(caller: Caller, row: QuotaRequest, state: str, note: str) -> dict[str, Any]:
    store.answer(row.pk, state, caller.name, note)
    verb = {"approved": "approve", "refused": "refuse", "withdrawn": "withdraw"}[state]
    after = {"state": state, "changes": row.changes, "classes": row.classes}
    audit.record(
        caller, f"{verb}_quota_request", "quota_request", row.pk, {"state": "open"}, after, note, row.tenant_id
    )
    db.hint(events.LIVE, "quota_requests")
    return _with_current(caller, store.find(row.pk))


def _with_current(caller: Caller, row: QuotaRequest | None) -> dict[str, Any]:
    shown = _shown(row)
    current = policy.get(caller, "tenant", shown["tenant"])
    parts = tenant_limits.list_limits(caller, shown["tenant"], "class", paging.MAX_LIMIT).items
    now = {part["class"]: part["max"] for part in parts}
    shown["current"] = {name: current[name] for name in ("version", *FIELDS)}
    shown["current"]["classes"] = {name: now.get(name) for name in shown["classes"]}
    return shown


def _shown(row: QuotaRequest | None) -> dict[str, Any]:
    assert row is not None, "it was there a moment ago, under a lock"
    names = ("changes", "classes", "reason", "state", "created_at", "created_by", "answered_at", "answered_by", "note")
    return {"id": row.pk, "tenant": row.tenant.slug} | {name: getattr(row, name) for name in names}
