"""Webhooks: addresses that are told when tasks end or alerts change (Standard Webhooks), and the log of messages.

Scope `operate`: for the whole installation, or inside one tenant for a webhook of that tenant. Who hears what: a
webhook without a tenant everything, one of a tenant that tenant's events; a key that is bound to a pool, that pool's.
Messages are written in the transaction that makes them true (tasks by trigger, everything else by
`webhook_events.enqueue`), and
delivered at least once by the messenger (services/webhook_delivery.py). The signing secret is derived from the
installation's pepper and stored nowhere: it is shown when it is made.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from dispatch.core import validate, webhooks
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, alerts, audit, mail, outbound, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

EVENTS = webhooks.EVENTS
MAX_OVERLAP_S = 30 * 86400.0
MAX_WEBHOOKS = 100  # of one tenant, or of the installation
EDITABLE = ("name", "url", "events", "enabled")
SHOWN = (
    "id",
    "name",
    "kind",
    "url",
    "events",
    "tenant",
    "pool",
    "enabled",
    "note",
    "pending",
    "failing_since",
    "created_at",
)
DELIVERY = ("id", "type", "data", "tries", "created_at", "tried_at", "status", "latency_ms", "response", "error")
STATES = ("pending", "delivered", "failed")
MISSING = "There is no such webhook."
RULE = "webhook_disabled"


def subject(webhook_id: int) -> str:
    """What an alert about this webhook is about."""
    return f"webhook:{webhook_id}"


def keys_of(webhook_id: int, generation: int, both: bool) -> list[bytes]:
    """The signing keys of a webhook, the newest first; `both`: the one before it too."""
    wanted = (generation, generation - 1) if both else (generation,)
    pepper = settings.EVENFLOW_PEPPER.encode()
    return [hmac.digest(pepper, f"webhook.{webhook_id}.{number}".encode(), hashlib.sha256) for number in wanted]


def _secret(webhook_id: int, generation: int) -> str:
    return webhooks.secret(keys_of(webhook_id, generation, False)[0])


def create_webhook(
    caller: Caller,
    *,
    name: str,
    url: str,
    events: Sequence[str] = webhooks.ENDS,
    tenant: str | None = None,
    kind: str = "standard",
) -> dict[str, Any]:
    """Make a webhook; the answer holds the `secret`, only here and at `rotate_webhook`.

    `kind` is one of KINDS; the `url` of an email is `mailto:` with its addresses.
    """
    with audit.refusals(caller, "create_webhook", "webhook", name), db.atomic():
        access.require(caller, "operate")
        tenant_id = _tenant(caller, tenant)
        fields = {"name": name, "url": url, "events": sorted(set(events)), "enabled": True, "kind": kind}
        _check(fields)
        if len(_find(caller, limit=MAX_WEBHOOKS, tenants=None if tenant_id is None else [tenant_id])) >= MAX_WEBHOOKS:
            raise Conflict(f"There are {MAX_WEBHOOKS} webhooks already.")
        bound = {"tenant_id": tenant_id, "pool_id": caller.pool_id, "created_by": caller.name}
        row = db.one("insert_webhook", fields | bound)
        assert row is not None
        audit.record(caller, "create_webhook", "webhook", row["id"], after=_noted(fields), tenant_id=tenant_id)
        return _shown(_find(caller, id=row["id"])[0]) | {"secret": _secret(row["id"], 1)}


def list_webhooks(caller: Caller, tenant: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
    """The webhooks that this caller may manage, in id order; `tenant` narrows."""
    access.require(caller, "operate")
    limit = paging.check_limit(limit)
    after = paging.decode("webhooks", cursor)[0] if cursor else 0
    narrow = {} if tenant is None else {"tenants": [_tenant(caller, tenant)]}
    page = paging.page(
        "webhooks", _find(caller, after=after, limit=limit + 1, **narrow), limit, lambda row: [row["id"]]
    )
    return Page(items=[_shown(row) for row in page.items], next_cursor=page.next_cursor)


def get_webhook(caller: Caller, webhook_id: int) -> dict[str, Any]:
    """One webhook; NotFound for those of others."""
    access.require(caller, "operate")
    return _shown(_own(caller, webhook_id))


def patch_webhook(caller: Caller, webhook_id: int, changes: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Change `name`, `url`, `events` or `enabled`; switching it on again forgets its failures."""
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, "patch_webhook", "webhook", webhook_id), db.atomic():
        access.require(caller, "operate")
        row = _own(caller, webhook_id, lock=True)
        if unknown := sorted(set(changes) - set(EDITABLE)):
            raise Invalid(*((name, validate.UNKNOWN) for name in unknown))
        before = {field: row[field] for field in EDITABLE}
        after = {**before, **changes}
        _check(after | {"kind": row["kind"]})
        after["events"] = sorted(set(after["events"]))
        fresh = after["url"] != before["url"] or (after["enabled"] and not before["enabled"])
        db.execute("update_webhook", {"id": webhook_id, "fresh": fresh, **after})
        if after["enabled"]:
            alerts.resolve(RULE, subject(webhook_id))
        old, new = _noted(before), _noted(after)
        audit.record(caller, "patch_webhook", "webhook", webhook_id, old, new, reason, row["tenant_id"])
        return _shown(_find(caller, id=webhook_id)[0])


def rotate_webhook(caller: Caller, webhook_id: int, overlap_s: float = 86400.0) -> dict[str, Any]:
    """A new `secret`; for `overlap_s` seconds messages carry the old one's signature beside the new one's."""
    if problem := validate.number(overlap_s, 0, MAX_OVERLAP_S):
        raise Invalid(("overlap_s", problem))
    with audit.refusals(caller, "rotate_webhook", "webhook", webhook_id), db.atomic():
        access.require(caller, "operate")
        row = _own(caller, webhook_id, lock=True)
        made = db.one("rotate_webhook", {"id": webhook_id, "overlap_s": overlap_s})
        assert made is not None
        audit.record(caller, "rotate_webhook", "webhook", webhook_id, after=made, tenant_id=row["tenant_id"])
        secret = _secret(webhook_id, made["generation"])
        return _shown(_find(caller, id=webhook_id)[0]) | {"secret": secret, "old_until": made["old_until"]}


def delete_webhook(caller: Caller, webhook_id: int, reason: str = "") -> None:
    """Forget a webhook and its messages."""
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, "delete_webhook", "webhook", webhook_id), db.atomic():
        access.require(caller, "operate")
        row = _own(caller, webhook_id, lock=True)
        db.execute("delete_webhook", {"id": webhook_id})
        alerts.resolve(RULE, subject(webhook_id))
        before = _noted({field: row[field] for field in EDITABLE})
        audit.record(caller, "delete_webhook", "webhook", webhook_id, before, None, reason, row["tenant_id"])


def test_webhook(caller: Caller, webhook_id: int) -> dict[str, Any]:
    """Send a message of the type `webhook.test`; what became of it is in the log a moment later."""
    with audit.refusals(caller, "test_webhook", "webhook", webhook_id), db.atomic():
        access.require(caller, "operate")
        row = _own(caller, webhook_id, lock=True)
        if not row["enabled"]:
            raise Conflict("The webhook is off.")
        data = json.dumps({"webhook": webhook_id, "name": row["name"], "by": caller.name})
        made = db.one("insert_delivery", {"webhook_id": webhook_id, "type": webhooks.TEST, "data": data})
        assert made is not None
        audit.record(caller, "test_webhook", "webhook", webhook_id, tenant_id=row["tenant_id"])
        return _delivery(_deliveries(webhook_id, id=made["id"])[0])


def list_deliveries(
    caller: Caller, webhook_id: int, state: str | None = None, limit: int = 100, cursor: str | None = None
) -> Page:
    """Messages to one webhook with their last try, newest first; `state` pending, delivered or failed."""
    access.require(caller, "operate")
    _own(caller, webhook_id)
    limit = paging.check_limit(limit)
    if state is not None and state not in STATES:
        raise Invalid(("state", f"must be one of {', '.join(STATES)}"))
    kind = f"deliveries.{webhook_id}"
    below = paging.decode(kind, cursor)[0] if cursor else 2**63 - 1
    code = None if state is None else STATES.index(state)
    found = _deliveries(webhook_id, below=below, state=code, limit=limit + 1)
    page = paging.page(kind, found, limit, lambda row: [row["id"]])
    return Page(items=[_delivery(row) for row in page.items], next_cursor=page.next_cursor)


def redeliver(caller: Caller, webhook_id: int, delivery_id: int) -> dict[str, Any]:
    """Send one message again, under the same message id; Conflict while it waits for a try anyway."""
    with audit.refusals(caller, "redeliver", "webhook", webhook_id), db.atomic():
        access.require(caller, "operate")
        row = _own(caller, webhook_id, lock=True)
        if not row["enabled"]:
            raise Conflict("The webhook is off.")
        if not 0 < delivery_id < 2**63 or not _deliveries(webhook_id, id=delivery_id):
            raise NotFound("There is no such delivery.")
        if db.one("redeliver", {"webhook_id": webhook_id, "id": delivery_id}) is None:
            raise Conflict("The message waits for its next try already.")
        after = {"delivery": delivery_id}
        audit.record(caller, "redeliver", "webhook", webhook_id, after=after, tenant_id=row["tenant_id"])
        return _delivery(_deliveries(webhook_id, id=delivery_id)[0])


def _tenant(caller: Caller, slug: str | None) -> int | None:
    """The tenant that a webhook belongs to: the one named, else the caller's own, else none."""
    if slug is None:
        if caller.tenant_id is None and not access.everywhere(caller):
            raise Invalid(("tenant", "is needed: you manage single tenants only"))
        return caller.tenant_id
    row = db.one("find_slug", {"kind": "tenant", "slug": slug}) if validate.is_slug(slug) else None
    if row is None or not access.sees_tenant(caller, row["id"]):
        raise Invalid(("tenant", "there is no such tenant"))
    access.require(caller, "operate", row["id"])
    return int(row["id"])


def _find(caller: Caller, **given: Any) -> list[dict[str, Any]]:
    visible = access.visible_tenants(caller)
    mine = None if visible is None else [tenant for tenant in visible if access.may(caller, "operate", tenant)]
    asked = {"after": 0, "limit": 1, "id": None, "tenants": mine, "pool_id": caller.pool_id}
    return db.rows("list_webhooks", asked | given)


def _own(caller: Caller, webhook_id: int, *, lock: bool = False) -> dict[str, Any]:
    if not 0 < webhook_id < 2**63:
        raise NotFound(MISSING)
    exists = db.one("lock_webhook", {"id": webhook_id}) if lock else None
    found = _find(caller, id=webhook_id)
    if not found:
        raise access.Hidden(MISSING) if exists else NotFound(MISSING)
    return found[0]


def _check(fields: Mapping[str, Any]) -> None:
    problems = [("name", validate.text(fields["name"], 1, 120))]
    address = mail.problem if fields["kind"] == "email" else outbound.problem
    problems.append(("kind", None if fields["kind"] in webhooks.KINDS else f"must be {' or '.join(webhooks.KINDS)}"))
    problems.append(("url", address(fields["url"]) if isinstance(fields["url"], str) else "must be a text"))
    events = fields["events"]
    if not events or not set(events) <= set(EVENTS):
        problems.append(("events", f"must be one or more of {', '.join(EVENTS)}"))
    problems.append(("enabled", validate.boolean(fields["enabled"])))
    if found := [(field, text) for field, text in problems if text]:
        raise Invalid(*found)


def _noted(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit keeps: of the address only its host, for the rest is often a password."""
    parts = urlsplit(fields["url"])
    return {**fields, "url": f"{parts.scheme}://{parts.hostname}/…" if parts.hostname else fields["url"]}


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SHOWN}


def _deliveries(webhook_id: int, **given: Any) -> list[dict[str, Any]]:
    asked = {"webhook_id": webhook_id, "below": 2**63 - 1, "state": None, "id": None, "limit": 1}
    return db.rows("list_deliveries", asked | given)


def message_id(message: Any) -> str:
    """The header `webhook-id` of a message."""
    return f"msg_{message.hex}"


def _delivery(row: Mapping[str, Any]) -> dict[str, Any]:
    pending = row["state"] == 0
    known = {"message_id": message_id(row["message"]), "state": STATES[row["state"]]}
    return {name: row[name] for name in DELIVERY} | known | {"next_at": row["next_at"] if pending else None}
