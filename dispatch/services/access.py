"""Who asks, and what that one may do: the one place where permission is decided, for API, pages, jobs and sockets.

Scopes (what a service demands): `submit` puts tasks in and cancels them; `work` registers workers, claims, heartbeats
and finishes; `read` sees tasks, policy, fleet, numbers; `operate` edits the policy, requeues, revokes, pauses;
`admin` makes and revokes keys (inside a tenant: the tenant's). No scope contains another one.
A key's scopes hold wherever the key is bound to (a tenant and/or a pool, else everywhere). A person's `scopes` are
those of the global role (operator: all, auditor: read); memberships add the scopes of ROLES inside one tenant.
Another tenant's object answers as a missing one (NotFound); an own object without the scope answers Forbidden.
"""

import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from django.conf import settings

from dispatch.core import validate
from dispatch.errors import Forbidden, NotFound, Unauthenticated
from dispatch.models import User
from dispatch.services import context
from dispatch.services.messages import Caller
from dispatch.store import db

SCOPES = frozenset({"submit", "work", "read", "operate", "admin"})
ROLES = {
    "admin": frozenset({"submit", "read", "operate", "admin"}),
    "member": frozenset({"submit", "read"}),
    "viewer": frozenset({"read"}),
}
GLOBAL_ROLES = {"operator": SCOPES, "auditor": frozenset({"read"})}
CACHE_TTL_S = 5.0  # a revoked key works at most this much longer
CACHE_SIZE = 10_000  # entries of each kind; the oldest go first
KEY_LENGTH = 128  # longer ones are not looked at


class Hidden(NotFound):
    """It exists, but not for this caller: the same answer as a missing one, told apart only for the audit."""


@dataclass(frozen=True, slots=True)
class _Entry:
    caller: Caller | None
    until: float


class _Cache:
    """Digest of a whole key → caller; bounded, good and bad keys apart, so that bad ones never push out good ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._good: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bad: OrderedDict[bytes, _Entry] = OrderedDict()

    def get(self, digest: bytes) -> _Entry | None:
        with self._lock:
            entry = self._good.get(digest) or self._bad.get(digest)
        return entry if entry and entry.until > time.monotonic() else None

    def put(self, digest: bytes, caller: Caller | None, ttl_s: float) -> None:
        with self._lock:
            entries = self._bad if caller is None else self._good
            (self._good if caller is None else self._bad).pop(digest, None)
            entries[digest] = _Entry(caller, time.monotonic() + ttl_s)
            entries.move_to_end(digest)
            while len(entries) > CACHE_SIZE:
                entries.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._good.clear()
            self._bad.clear()


_cache = _Cache()


def digest(secret: str) -> bytes:
    """HMAC-SHA256 of a key's secret under the installation's pepper: what is stored."""
    return hmac.digest(settings.EVENFLOW_PEPPER.encode(), secret.encode(), "sha256")


def forget_keys() -> None:
    """Empty this process's cache of keys: a revocation made here acts here at once."""
    _cache.clear()


def authenticate(raw_key: str) -> Caller:
    """The caller of an API key `ef_<prefix>_<secret>`, at most 5 s old; raises Unauthenticated for any other text."""
    if len(raw_key) > KEY_LENGTH or not raw_key.isascii() or not raw_key.startswith("ef_"):
        raise Unauthenticated
    fingerprint = hashlib.sha256(raw_key.encode()).digest()
    entry = _cache.get(fingerprint)
    caller = entry.caller if entry else _look_up(raw_key, fingerprint)
    if caller is None:
        raise Unauthenticated
    return caller


def cached(raw_key: str) -> Caller | None:
    """The caller of a key that was looked up within the last 5 s, without touching the database; else None."""
    if len(raw_key) > KEY_LENGTH:
        return None
    entry = _cache.get(hashlib.sha256(raw_key.encode("utf-8", "surrogatepass")).digest())
    return entry.caller if entry else None


def _look_up(raw_key: str, fingerprint: bytes) -> Caller | None:
    _, prefix, secret = [*raw_key.split("_", 2), "", ""][:3]
    row = db.one("find_key", {"prefix": prefix, "ttl_s": CACHE_TTL_S}) if secret and "\0" not in prefix else None
    # an unknown prefix costs the same comparison as a wrong secret
    known = hmac.compare_digest(digest(secret), bytes(row["digest"]) if row else bytes(32))
    if row is None or not known:
        _cache.put(fingerprint, None, CACHE_TTL_S)
        return None
    if row["stale"]:
        db.execute("touch_key", {"key_id": row["id"]})
    caller = Caller(
        kind="key",
        id=row["id"],
        name=row["name"],
        scopes=frozenset(row["scopes"]),
        tenant_id=row["tenant_id"],
        pool_id=row["pool_id"],
    )
    _cache.put(fingerprint, caller, row["ttl_s"])
    return caller


def for_user(user: User) -> Caller:
    """The caller of a signed-in person, read afresh: a role taken away acts at the next call."""
    members = db.rows("list_memberships", {"user_id": user.pk})
    active = user.is_active
    return Caller(
        kind="user",
        id=user.pk,
        name=user.email,
        scopes=GLOBAL_ROLES.get(user.role, frozenset()) if active else frozenset(),
        memberships={row["tenant_id"]: row["role"] for row in members} if active else {},
        view_payloads=active and user.role in GLOBAL_ROLES,
        request_id=context.request_id(),
        payload_tenants=frozenset(row["tenant_id"] for row in members if row["view_payloads"] and active),
    )


def system(name: str) -> Caller:
    """One of our own processes: everything, everywhere."""
    return Caller(kind="system", id=None, name=name, scopes=SCOPES)


def may(caller: Caller, scope: str, tenant_id: int | None = None) -> bool:
    """Whether the caller has the scope at all, or (with a tenant) inside that tenant."""
    if tenant_id is None:
        return scope in caller.scopes or any(scope in ROLES[role] for role in caller.memberships.values())
    if not sees_tenant(caller, tenant_id):
        return False
    return scope in caller.scopes or scope in ROLES.get(caller.memberships.get(tenant_id, ""), frozenset())


def everywhere(caller: Caller) -> bool:
    """Whether the caller's scopes hold for all tenants: not a tenant-bound key, not a mere member."""
    return caller.tenant_id is None and (caller.kind != "user" or bool(caller.scopes))


def operates(caller: Caller) -> bool:
    """Whether the caller is an operator: `operate` for the whole installation."""
    return "operate" in caller.scopes and everywhere(caller)


def sees_tenant(caller: Caller, tenant_id: int) -> bool:
    """Whether the tenant exists for this caller."""
    if caller.tenant_id is not None:
        return caller.tenant_id == tenant_id
    return everywhere(caller) or tenant_id in caller.memberships


def narrow(caller: Caller, tenant: str | None) -> Caller:
    """The caller as one who sees a single tenant; NotFound for one that does not exist for the caller."""
    if not tenant:
        return caller
    row = db.one("find_slug", {"kind": "tenant", "slug": tenant}) if validate.is_slug(tenant) else None
    if row is None or not sees_tenant(caller, row["id"]):
        raise Hidden("There is no such tenant.")
    return replace(caller, tenant_id=row["id"])


def visible_tenants(caller: Caller) -> list[int] | None:
    """The tenants that exist for this caller; None means all."""
    if caller.tenant_id is not None:
        return [caller.tenant_id]
    return None if everywhere(caller) else sorted(caller.memberships)


def views_payloads(caller: Caller, tenant_id: int) -> bool:
    """Whether payloads, results and checkpoints of the tenant are shown to this caller."""
    return caller.view_payloads or tenant_id in caller.payload_tenants


def require(caller: Caller, scope: str, tenant_id: int | None = None) -> None:
    """Raise Forbidden unless the caller has the scope (inside the tenant, where one is given)."""
    if not may(caller, scope, tenant_id):
        raise Forbidden(f"This needs the scope {scope}.")


def tenant_id(caller: Caller, slug: str, scope: str) -> int:
    """The id of a tenant in which the caller has the scope; NotFound when it is missing or hidden, else Forbidden."""
    row = db.one("find_slug", {"kind": "tenant", "slug": slug}) if validate.is_slug(slug) else None
    if row is None:
        raise NotFound("There is no such tenant.")
    if not sees_tenant(caller, row["id"]):
        raise Hidden("There is no such tenant.")
    require(caller, scope, row["id"])
    return int(row["id"])


def require_everywhere(caller: Caller, scope: str) -> None:
    """Raise Forbidden unless the caller has the scope for the whole installation."""
    if scope not in caller.scopes or not everywhere(caller):
        raise Forbidden(f"This needs the scope {scope} for the whole installation.")


def see_tenant(caller: Caller, tenant_id: int) -> None:
    """Raise NotFound for another tenant's object."""
    if not sees_tenant(caller, tenant_id):
        raise Hidden


def see_pool(caller: Caller, pool_id: int) -> None:
    """Raise NotFound for an object of another pool than the one the key is bound to."""
    if caller.pool_id is not None and caller.pool_id != pool_id:
        raise Hidden("There is no such pool.")  # word for word as for a name that does not exist


def see_task(caller: Caller, task_id: int, scope: str, *, other: str | None = None) -> dict[str, int]:
    """The task's `id`, `pool_id`, `tenant_id`; NotFound when missing or hidden, Forbidden without the scope.

    `other` is a second scope that will do as well.
    """
    if not may(caller, scope) and not (other and may(caller, other)):
        raise Forbidden(f"This needs the scope {scope}.")
    row = db.one("find_task", {"task_id": task_id}) if 0 < task_id < 2**63 else None
    if row is None:
        raise NotFound("There is no such task.")
    if not sees_tenant(caller, row["tenant_id"]) or caller.pool_id not in {None, row["pool_id"]}:
        raise Hidden("There is no such task.")
    if not may(caller, scope, row["tenant_id"]) and not (other and may(caller, other, row["tenant_id"])):
        raise Forbidden(f"This needs the scope {scope}.")
    return row
