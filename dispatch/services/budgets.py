"""Cost budgets of tenants: make, read, edit, archive; top-ups and overrides that end by themselves.

Reading needs `read` in the tenant; writing is the operators' (`operate` for the whole installation), everything with a
reason in the audit. An edit acts at the next dispatch cycle. The budget `default` is the tenant's own `cost_budget` and
`budget_window_s`, and is made and ended there. Amounts are numbers in the pool's cost unit. Another window or time zone
starts a new window with nothing settled.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dispatch import events
from dispatch.core import budgets as core
from dispatch.core import validate
from dispatch.core.types import MICRO
from dispatch.errors import Conflict, Invalid, NotFound, VersionConflict
from dispatch.services import access, audit, paging, policy
from dispatch.services.messages import Caller, Page
from dispatch.store import budget_rows as store
from dispatch.store import budgets as ledger
from dispatch.store import db
from dispatch.store import policy as policy_store

DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(core.FIELDS),
    "timezone": "UTC",
    "on_breach": "hold",
    "alert_at": 0.8,
}
WINDOWS_SHOWN = 31
LONGEST_S = 366 * 86400  # an override is for a time


def list_budgets(caller: Caller, tenant: str, limit: int = 100, cursor: str | None = None) -> Page:
    """A tenant's budgets in the order of their names, each with its state (see `get`)."""
    row = _tenant(caller, tenant, "read")
    limit = paging.check_limit(limit)
    after = paging.decode("budgets", cursor)[0] if cursor else ""
    found = store.page(row.pk, after, limit + 1)
    states = {one["id"]: one for one in ledger.state(ids=[one.pk for one in found])} if found else {}
    items = [_shown(row.slug, one, states[one.pk]) for one in found]
    return paging.page("budgets", items, limit, lambda item: [item["slug"]])


def get(caller: Caller, tenant: str, slug: str) -> dict[str, Any]:
    """One budget: its fields, `version`, `state` (limit in force, settled, reserved, left, window, since when something
    waits for it), its live `extras` (top-ups and overrides) and the newest `windows`."""
    row = _tenant(caller, tenant, "read")
    return _whole(row.slug, _find(row.pk, slug))


def create(caller: Caller, tenant: str, slug: str, fields: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Make a budget; `limit` is needed. Raises Invalid, Conflict when the name is taken."""
    with audit.refusals(caller, "create_budget", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        problems = [("slug", problem)] if (problem := validate.slug(slug)) else []
        if "limit" not in fields:
            problems.append(("limit", "is needed"))
        values = _checked(caller, {}, fields, reason, problems)
        if slug == core.FOLLOWING:
            raise Conflict(f"The budget {slug} is the tenant's own: set its cost_budget.")
        made = store.insert(row.pk, slug, values, history=_history(caller, reason))
        if made is None:
            raise Conflict(f"There is a budget {slug} already.")
        shown = _whole(row.slug, made)
        _record(caller, "create_budget", row, slug, None, shown, reason)
    return shown


def patch(
    caller: Caller, tenant: str, slug: str, version: int, changes: Mapping[str, Any], reason: str
) -> dict[str, Any]:
    """Edit a budget that still has `version`; class and user cannot be changed."""
    with audit.refusals(caller, "patch_budget", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        old = _find(row.pk, slug, lock=True)
        before = _whole(row.slug, old)
        values = _checked(caller, before, changes, reason, [], needed=True)
        if old.version != version:
            raise VersionConflict(f"The budget {slug} has version {old.version} by now.", current=before)
        if old.follows and {"limit", "window", "window_s", "unit"} & set(changes):
            raise Invalid(("limit", "is the tenant's own: edit its cost_budget and budget_window_s"))
        store.update(old.pk, values, history=_history(caller, reason))
        db.execute("forgive_budget", {"id": old.pk})
        shown = _whole(row.slug, _find(row.pk, slug))
        _record(caller, "patch_budget", row, slug, before, shown, reason)
    return shown


def delete(caller: Caller, tenant: str, slug: str, reason: str = "") -> None:
    """End a budget: nothing is limited by it any more; its windows stay."""
    with audit.refusals(caller, "delete_budget", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        old = _find(row.pk, slug, lock=True)
        _text(reason, 0)
        if old.follows:
            raise Conflict("This budget is the tenant's own: set its cost_budget to null.")
        store.update(old.pk, {"archived_at": store.NOW}, history=_history(caller, reason))
        _record(caller, "delete_budget", row, slug, _fields(row.slug, old), None, reason)


def top_up(caller: Caller, tenant: str, slug: str, amount: float, reason: str) -> dict[str, Any]:
    """Add to a budget until its window ends; the budget as it then is."""
    with audit.refusals(caller, "top_up_budget", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        old = _find(row.pk, slug, lock=True)
        if problem := validate.number(amount, 0, validate.MAX_COST, above=True):
            raise Invalid(("amount", problem))
        until = ledger.state(ids=[old.pk])[0]["ends_at"]
        return _add(caller, row, old, "top_up", round(amount * MICRO), until, reason)


def override(
    caller: Caller, tenant: str, slug: str, limit: float | None, until: datetime, reason: str
) -> dict[str, Any]:
    """Another limit in a budget's place until a time (None: no limit); it ends by itself. Top-ups add to it."""
    with audit.refusals(caller, "override_budget", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        old = _find(row.pk, slug, lock=True)
        problems = []
        if limit is not None and (problem := validate.number(limit, 0, validate.MAX_COST)):
            problems.append(("limit", problem))
        if problem := validate.moment(until) or _soon(until):
            problems.append(("until", problem))
        if problems:
            raise Invalid(*problems)
        amount = None if limit is None else round(limit * MICRO)
        return _add(caller, row, old, "override", amount, until, reason)


def end_extra(caller: Caller, tenant: str, slug: str, extra_id: int, reason: str = "") -> dict[str, Any]:
    """Take a top-up or override back before its time."""
    with audit.refusals(caller, "end_budget_extra", "budget", f"{tenant}/{slug}"), db.atomic():
        row = _tenant(caller, tenant, "operate")
        old = _find(row.pk, slug, lock=True)
        _text(reason, 0)
        before = {"extras": [_extra(one) for one in store.extras(old.pk)]}
        if not 0 < extra_id < 2**63 or not store.end_extra(old.pk, extra_id):
            raise NotFound("The budget has no such top-up or override.")
        shown = _whole(row.slug, old)
        _record(caller, "end_budget_extra", row, slug, before, {"extras": shown["extras"]}, reason)
    return shown


def _tenant(caller: Caller, slug: str, scope: str) -> policy_store.Row:
    access.require(caller, scope)
    row = policy.find(caller, "tenant", slug)
    if scope == "read":
        access.require(caller, scope, row.pk)
    else:
        access.require_everywhere(caller, scope)
    return row


def _find(tenant_id: int, slug: str, *, lock: bool = False) -> store.Row:
    row = store.find(tenant_id, slug, lock=lock) if validate.is_slug(slug) else None
    if row is None:
        raise NotFound("There is no such budget.")
    return row


def _history(caller: Caller, reason: str) -> dict[str, str]:
    return {"actor": caller.name, "reason": reason, "request_id": caller.request_id}


def _text(reason: str, least: int) -> None:
    if problem := validate.text(reason, least, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))


def _checked(
    caller: Caller,
    current: Mapping[str, Any],
    given: Mapping[str, Any],
    reason: str,
    problems: list[tuple[str, str]],
    *,
    needed: bool = False,
) -> dict[str, Any]:
    """The columns to write when all is well."""
    found = problems + core.problems(given)
    found += [
        (name, "cannot be changed") for name in core.FIXED & set(given) if current and given[name] != current[name]
    ]
    if problem := validate.text(reason, int(needed), audit.REASON_LENGTH):
        found.append(("reason", problem))
    if found:
        raise Invalid(*found)
    whole = {name: current.get(name, DEFAULTS[name]) for name in core.FIELDS} | dict(given)
    found = core.contradictions(whole)
    classes = {}
    for name in ("class", "degrade_to"):
        if whole[name] is not None:
            try:
                classes[name] = policy.find(caller, "class", whole[name])
            except NotFound:
                found.append((name, "there is no such class"))
    if len(classes) == 2 and classes["class"].pool_id != classes["degrade_to"].pool_id:
        found.append(("degrade_to", "must be a class of the same pool"))
    if whole["user"] is not None and not (validate.is_slug(whole["user"]) or whole["user"] == validate.NO_USER):
        found.append(("user", "is not a name of a user"))
    if not store.knows_timezone(whole["timezone"]):
        found.append(("timezone", "is not a time zone such as Europe/Berlin"))
    if found:
        raise Invalid(*found)
    return {
        "work_class": classes.get("class"),
        "user": whole["user"],
        "unit": whole["unit"] or "",
        "amount": round(whole["limit"] * MICRO),
        "span": whole["window"] or "",
        "span_s": whole["window_s"],
        "timezone": whole["timezone"],
        "on_breach": whole["on_breach"],
        "degrade_to": classes.get("degrade_to"),
        "alert_at": whole["alert_at"],
    }


def _soon(until: datetime) -> str | None:
    if not db.tuples("is_future", {"at": until})[0][0]:
        return "must be in the future"
    return "must be within a year" if db.tuples("is_beyond", {"at": until, "s": LONGEST_S})[0][0] else None


def _add(
    caller: Caller,
    tenant: policy_store.Row,
    row: store.Row,
    kind: str,
    amount: int | None,
    until: datetime | None,
    reason: str,
) -> dict[str, Any]:
    _text(reason, 1)
    made = store.insert_extra(row.pk, kind, amount, until, caller.name, reason)
    db.execute("forgive_budget", {"id": row.pk})
    _record(caller, f"{kind}_budget", tenant, row.slug, None, _extra(made), reason)
    return _whole(tenant.slug, row)


def _record(
    caller: Caller, action: str, tenant: policy_store.Row, slug: str, before: Any, after: Any, reason: str
) -> None:
    hidden = {"state", "windows"}
    kept = [
        None if one is None else {name: value for name, value in one.items() if name not in hidden}
        for one in (before, after)
    ]
    audit.record(caller, action, "budget", f"{tenant.slug}/{slug}", kept[0], kept[1], reason, tenant.pk)
    db.hint(events.POOL, "")
    db.hint(events.LIVE, "policy:tenant")


# Shown


def _fields(tenant: str, row: store.Row) -> dict[str, Any]:
    return {
        "slug": row.slug,
        "tenant": tenant,
        "class": row.work_class.slug if row.work_class else None,
        "user": row.user.name if row.user else None,
        "unit": row.unit or None,
        "limit": row.amount / MICRO,
        "window": row.span or None,
        "window_s": row.span_s,
        "timezone": row.timezone,
        "on_breach": row.on_breach,
        "degrade_to": row.degrade_to.slug if row.degrade_to else None,
        "alert_at": row.alert_at,
        "follows_tenant": row.follows,
        "version": row.version,
    }


def _shown(tenant: str, row: store.Row, state: Mapping[str, Any]) -> dict[str, Any]:
    used = state["settled"] + state["reserved"]
    amount = state["amount"]
    return _fields(tenant, row) | {
        "state": {
            "limit": None if amount is None else amount / MICRO,
            "settled": state["settled"] / MICRO,
            "reserved": state["reserved"] / MICRO,
            "left": None if state["left"] is None else state["left"] / MICRO,
            "low": core.is_low(used, amount, state["alert_at"]),
            "waiting_since": state["refused_at"],
            "window_start": None if state["ends_at"] is None else state["starts_at"],
            "window_end": state["ends_at"],
        }
    }


def _whole(tenant: str, row: store.Row) -> dict[str, Any]:
    shown = _shown(tenant, row, ledger.state(ids=[row.pk])[0])
    shown["extras"] = [_extra(one) for one in store.extras(row.pk)]
    windows = db.rows("budget_windows", {"id": row.pk, "limit": WINDOWS_SHOWN})
    shown["windows"] = [{"start": one["window_start"], "settled": one["settled"] / MICRO} for one in windows]
    return shown


def _extra(row: store.Row) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": row.kind,
        "amount": None if row.amount is None else row.amount / MICRO,
        "created_at": row.created_at,
        "until": row.until_at,
        "by": row.created_by,
        "reason": row.reason,
    }
