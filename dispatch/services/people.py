"""People: the global roles, for operators; who is active; the members of a tenant, for its admins and for operators.

Reading all people needs `read` for the whole installation, changing them `admin`. The members of a tenant are seen by
who reads the tenant and changed by who has `admin` in it. One operator who can sign in is always left, and one admin of
a tenant unless an operator takes the last one away. Every change closes the open sockets of the person at once.
"""

from typing import Any

from django.contrib.sessions.models import Session
from django.db.models import Q

from dispatch.core import validate
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.models import Membership, User
from dispatch.services import access, audit, paging, sockets
from dispatch.services.messages import Caller, Page
from dispatch.store import db

ROLES = ("operator", "auditor", "")
MEMBER_ROLES = tuple(access.ROLES)
MISSING = "There is no such person."


def list_people(caller: Caller, limit: int = 100, cursor: str | None = None, search: str = "") -> Page:
    """Everybody with roles and memberships, in the order of the e-mail addresses."""
    access.require_everywhere(caller, "read")
    limit = paging.check_limit(limit)
    after = paging.decode("people", cursor)[0] if cursor else ""
    found = User.objects.filter(email__gt=after).order_by("email")
    if search and validate.storable(search):
        found = found.filter(Q(email__icontains=search) | Q(name__icontains=search))
    users = list(found[: limit + 1])
    inside: dict[int, list[dict[str, Any]]] = {user.pk: [] for user in users}
    for member in Membership.objects.filter(user__in=users, tenant__archived_at=None).select_related("tenant"):
        inside[member.user_id].append({"tenant": member.tenant.slug, "role": member.role})
    items = [_person(user) | {"memberships": inside[user.pk]} for user in users]
    return paging.page("people", items, limit, lambda item: [item["email"]])


def _person(user: User) -> dict[str, Any]:
    return {
        "id": user.pk,
        "email": user.email,
        "name": user.name,
        "role": user.role or None,
        "active": user.is_active,
        "joined_at": user.date_joined,
        "last_login_at": user.last_login,
    }


def set_role(caller: Caller, person_id: int, role: str, reason: str = "") -> dict[str, Any]:
    """Give a person a global role ("" takes it away); Conflict when no operator would be left."""
    if role not in ROLES:
        raise Invalid(("role", "must be operator, auditor or empty"))
    return _change(caller, "set_role", person_id, {"role": role}, reason)


def set_active(caller: Caller, person_id: int, active: bool, reason: str = "") -> dict[str, Any]:
    """Deactivate a person, which ends all sessions, or activate one again."""
    return _change(caller, "activate" if active else "deactivate", person_id, {"is_active": active}, reason)


def _change(caller: Caller, action: str, person_id: int, changes: dict[str, Any], reason: str) -> dict[str, Any]:
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        raise Invalid(("reason", problem))
    with audit.refusals(caller, action, "person", person_id), db.atomic():
        access.require_everywhere(caller, "admin")
        operators = list(User.objects.filter(role="operator", is_active=True).order_by("pk").select_for_update())
        user = User.objects.filter(pk=person_id).select_for_update().first() if 0 < person_id < 2**63 else None
        if user is None:
            raise NotFound(MISSING)
        before = _person(user)
        for name, value in changes.items():
            setattr(user, name, value)
        if operators == [user] and not (user.is_active and user.role == "operator"):
            raise Conflict("One operator who can sign in has to be left.")
        user.save(update_fields=list(changes))
        after = _person(user)
        if not user.is_active:
            end_sessions(user)
        audit.record(caller, action, "person", user.email, *_differences(before, after), reason)
        sockets.close(user.pk)
    return after


def _differences(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [name for name in after if before[name] != after[name]]
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def end_sessions(user: User, keep: str | None = None) -> int:
    """Sign a person out everywhere (but in the session `keep`); how many sessions ended."""
    from allauth.usersessions.models import UserSession  # needs the apps to be loaded

    known = UserSession.objects.filter(user=user).exclude(session_key=keep or "")
    ended, _ = Session.objects.filter(session_key__in=list(known.values_list("session_key", flat=True))).delete()
    known.delete()
    sockets.close(user.pk)
    return ended


def list_members(caller: Caller, tenant: str) -> list[dict[str, Any]]:
    """The members of a tenant in the order of their e-mail addresses."""
    tenant_id = access.tenant_id(caller, tenant, "read")
    found = Membership.objects.filter(tenant_id=tenant_id).select_related("user").order_by("user__email")
    return [_member(member) for member in found]


def _member(member: Membership) -> dict[str, Any]:
    user = member.user
    return {
        "id": user.pk,
        "email": user.email,
        "name": user.name,
        "role": member.role,
        "view_payloads": member.view_payloads,
        "active": user.is_active,
        "last_login_at": user.last_login,
    }


def set_member(
    caller: Caller, tenant: str, person_id: int, role: str | None = None, view_payloads: bool | None = None
) -> dict[str, Any]:
    """Change a member's role or right to see payloads; what is None stays."""
    if role is not None and role not in MEMBER_ROLES:
        raise Invalid(("role", f"must be one of {', '.join(MEMBER_ROLES)}"))
    with audit.refusals(caller, "set_member", "member", person_id), db.atomic():
        tenant_id, member = _locked(caller, tenant, person_id)
        before = _member(member)
        member.role = member.role if role is None else role
        member.view_payloads = member.view_payloads if view_payloads is None else view_payloads
        if before["role"] == "admin" and member.role != "admin":
            _keep_an_admin(caller, tenant_id, person_id)
        member.save(update_fields=["role", "view_payloads"])
        after = _member(member)
        changed = _differences(before, after)
        audit.record(caller, "set_member", "member", member.user.email, *changed, tenant_id=tenant_id)
        sockets.close(person_id)
    return after


def remove_member(caller: Caller, tenant: str, person_id: int) -> dict[str, Any]:
    """Take a person out of a tenant; who that was."""
    with audit.refusals(caller, "remove_member", "member", person_id), db.atomic():
        tenant_id, member = _locked(caller, tenant, person_id)
        if member.role == "admin":
            _keep_an_admin(caller, tenant_id, person_id)
        gone = _member(member)
        member.delete()
        shown = {"role": gone["role"], "view_payloads": gone["view_payloads"]}
        audit.record(caller, "remove_member", "member", gone["email"], shown, tenant_id=tenant_id)
        sockets.close(person_id)
    return gone


def _locked(caller: Caller, tenant: str, person_id: int) -> tuple[int, Membership]:
    """The tenant's id and the membership, the tenant's memberships locked against other changes."""
    tenant_id = access.tenant_id(caller, tenant, "admin")
    found = Membership.objects.filter(tenant_id=tenant_id).order_by("pk").select_for_update(of=("self",))
    for member in found.select_related("user"):
        if member.user_id == person_id:
            return tenant_id, member
    raise NotFound("There is no such member.")


def _keep_an_admin(caller: Caller, tenant_id: int, person_id: int) -> None:
    """Conflict when the department would be left without an admin who can sign in; operators may do that."""
    if access.everywhere(caller):
        return
    others = Membership.objects.filter(tenant_id=tenant_id, role="admin", user__is_active=True)
    if not others.exclude(user_id=person_id).exists():
        raise Conflict("The last admin of a department stays; make somebody else admin first.")
