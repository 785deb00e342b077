"""API keys: make, list, rotate, revoke. The whole key is shown once, only its HMAC is stored.

Who has `admin` for the whole installation manages all keys; a tenant-bound `admin` key and a department's admins manage
the keys of their tenant. Nobody grants what they lack; a department may also let its own agents work (TENANT_SCOPES).
"""

import secrets
import string
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dispatch.core import validate
from dispatch.errors import Forbidden, Invalid, NotFound
from dispatch.services import access, audit, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db

ALPHABET = string.ascii_letters + string.digits
PREFIX_LENGTH = 8
MAX_OVERLAP_S = 30 * 86400.0
SECRET_LENGTH = 43  # base 62: 256 bits
TENANT_SCOPES = frozenset({"submit", "work", "read", "operate"})  # what a department's admin may grant


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _check(name: str, scopes: Sequence[str], expires_at: datetime | None) -> None:
    errors = []
    if not name.strip() or len(name) > 120 or not validate.storable(name):
        errors.append(("name", "must have 1 to 120 characters"))
    if not scopes or not set(scopes) <= access.SCOPES:
        errors.append(("scopes", f"must be one or more of {', '.join(sorted(access.SCOPES))}"))
    if expires_at is not None and (expires_at.tzinfo is None or expires_at.utcoffset() is None):
        errors.append(("expires_at", "needs a time zone"))
    if errors:
        raise Invalid(*errors)


def _bind(field: str, slug: str | None, bound: Sequence[int] | None) -> int | None:
    """The id of the tenant or pool (`field`) a key is bound to; a bound caller's keys are bound like itself."""
    if slug is None:
        if bound is not None and len(bound) > 1:
            raise Invalid((field, "must be named"))
        return bound[0] if bound else None
    row = db.one("find_slug", {"kind": field, "slug": slug}) if validate.is_slug(slug) else None
    if row is None or (bound is not None and row["id"] not in bound):
        raise Invalid((field, f"there is no such {field}"))
    return int(row["id"])


def _tenants(caller: Caller) -> list[int] | None:
    """The tenants whose keys the caller manages (None: all keys); Forbidden without any."""
    access.require(caller, "admin")
    if "admin" in caller.scopes:
        return access.visible_tenants(caller)
    return [tenant for tenant in caller.memberships if access.may(caller, "admin", tenant)]


def _pools(caller: Caller) -> list[int] | None:
    return None if caller.pool_id is None else [caller.pool_id]


def _check_grant(caller: Caller, scopes: Sequence[str]) -> None:
    if not set(scopes) <= (caller.scopes if "admin" in caller.scopes else TENANT_SCOPES):
        raise Forbidden("A key cannot have scopes that its maker lacks.")


def create_key(
    caller: Caller,
    *,
    name: str,
    scopes: Sequence[str],
    tenant: str | None = None,
    pool: str | None = None,
    expires_at: datetime | None = None,
) -> dict[str, Any]:
    """Make a key (scope `admin`); the answer holds the whole key, only here. Nobody grants what they lack."""
    with audit.refusals(caller, "create_key", "key", name), db.atomic():
        tenants = _tenants(caller)
        _check(name, scopes, expires_at)
        _check_grant(caller, scopes)
        tenant_id = _bind("tenant", tenant, tenants)
        pool_id = _bind("pool", pool, _pools(caller))
        made = _insert(caller, name, scopes, tenant_id, pool_id, expires_at)
        audit.record(caller, "create_key", "key", made["id"], after=_public(made), tenant_id=tenant_id)
    return made


def _insert(
    caller: Caller,
    name: str,
    scopes: Sequence[str],
    tenant_id: int | None,
    pool_id: int | None,
    expires_at: datetime | None,
) -> dict[str, Any]:
    """The answer for a new key, the whole key included."""
    prefix, secret = _random(PREFIX_LENGTH), _random(SECRET_LENGTH)
    row = db.one(
        "insert_key",
        {
            "prefix": prefix,
            "digest": access.digest(secret),
            "name": name,
            "scopes": sorted(set(scopes)),
            "tenant_id": tenant_id,
            "pool_id": pool_id,
            "expires_at": expires_at,
            "created_by": caller.name,
        },
    )
    assert row is not None
    return {
        "id": row["id"],
        "key": f"ef_{prefix}_{secret}",
        "prefix": prefix,
        "name": name,
        "scopes": sorted(set(scopes)),
        "tenant": row["tenant"],
        "pool": row["pool"],
        "expires_at": expires_at,
    }


def _public(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name not in {"id", "key"}}


def rotate_key(caller: Caller, key_id: int, overlap_s: float = 0.0) -> dict[str, Any]:
    """A new key in the place of an old one (scope `admin`), same name, scopes, bindings and end; the whole key is in
    this answer only. The old one works for `overlap_s` seconds more (0: it ends within 5 s)."""
    if problem := validate.number(overlap_s, 0, MAX_OVERLAP_S):
        raise Invalid(("overlap_s", problem))
    with audit.refusals(caller, "rotate_key", "key", key_id), db.atomic():
        bound = {"tenants": _tenants(caller), "pool_id": caller.pool_id}
        old = db.one("lock_key", {"key_id": key_id, **bound}) if 0 < key_id < 2**63 else None
        if old is None:
            raise NotFound("There is no such key.")
        _check_grant(caller, old["scopes"])
        made = _insert(caller, old["name"], old["scopes"], old["tenant_id"], old["pool_id"], old["expires_at"])
        ends = db.rows("outlive_key", {"key_id": key_id, "overlap_s": overlap_s})[0]["expires_at"]
        before = {"prefix": old["prefix"], "expires_at": ends}
        audit.record(caller, "rotate_key", "key", key_id, before, _public(made), tenant_id=old["tenant_id"])
    access.forget_keys()
    return made | {"replaces": key_id, "old_expires_at": ends}


def whoami(caller: Caller) -> dict[str, Any]:
    """What the caller's key is and may do, and the database's clock; any key may ask."""
    row = db.one("describe_caller", {"tenant_id": caller.tenant_id, "pool_id": caller.pool_id})
    assert row is not None
    return {"id": caller.id, "name": caller.name, "scopes": sorted(caller.scopes), **row}


def list_keys(caller: Caller, limit: int = 100, cursor: str | None = None, tenant: str | None = None) -> Page:
    """Keys in id order (scope `admin`), without secrets; a bound caller sees its tenant's keys only. `tenant` narrows
    to the keys that are bound to it."""
    tenants = _tenants(caller)
    if tenant is not None:
        tenants = [one for one in [_bind("tenant", tenant, tenants)] if one is not None]
    limit = paging.check_limit(limit)
    after = paging.decode("keys", cursor)[0] if cursor else 0
    narrow = {"tenants": tenants, "pool_id": caller.pool_id}
    found = db.rows("list_keys", {"after": after, "limit": limit + 1, **narrow})
    return paging.page("keys", found, limit, lambda row: [row["id"]])


def revoke_key(caller: Caller, key_id: int) -> None:
    """Revoke a key (scope `admin`): dead within 5 s everywhere. Unknown or revoked already: NotFound."""
    with audit.refusals(caller, "revoke_key", "key", key_id), db.atomic():
        bound = {"tenants": _tenants(caller), "pool_id": caller.pool_id}
        row = db.one("revoke_key", {"key_id": key_id, **bound}) if 0 < key_id < 2**63 else None
        if row is None:
            raise NotFound("There is no such key.")
        shown = {"prefix": row["prefix"], "name": row["name"]}
        audit.record(caller, "revoke_key", "key", key_id, before=shown, tenant_id=row["tenant_id"])
    access.forget_keys()
