"""Invitations: an operator or a department's admin offers a role to an e-mail address by a link that works once.

The link carries a token of 256 bits, of which only the HMAC is stored, and holds for EXPIRES. Accepting makes the
account where there is none; whoever has one already signs in first, with that very address. Who is invited does not
show whether an account exists.
"""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models.functions import Now

from dispatch.core import validate
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.models import Invitation, Membership, User
from dispatch.services import access, audit, clock, people, sockets
from dispatch.services.messages import Caller
from dispatch.store import db

EXPIRES = timedelta(days=7)
GONE = "This invitation is not valid: it was used, taken back or is over. Ask for another one."
NAME_LENGTH = 120


def invite(
    caller: Caller, email: str, role: str, tenant: str | None = None, view_payloads: bool = False
) -> dict[str, Any]:
    """Offer a role (scope `admin`, in the tenant or everywhere); the token is in this answer only."""
    with audit.refusals(caller, "invite", "person", email), db.atomic():
        tenant_id = _right(caller, tenant)
        address = _address(email)
        roles: Sequence[str] = people.MEMBER_ROLES if tenant_id else ("operator", "auditor")
        if role not in roles:
            raise Invalid(("role", f"must be one of {', '.join(roles)}"))
        if tenant_id and Membership.objects.filter(tenant_id=tenant_id, user__email__iexact=address).exists():
            raise Conflict(f"{address} is a member already.")
        _open(tenant_id).filter(email__iexact=address).update(revoked_at=Now())
        token = secrets.token_urlsafe(32)
        made = Invitation.objects.create(
            digest=access.digest(token),
            email=address,
            role=role,
            tenant_id=tenant_id,
            view_payloads=bool(tenant_id and view_payloads),
            created_by=caller.name,
            expires_at=clock.now() + EXPIRES,
        )
        audit.record(caller, "invite", "person", address, after={"role": role}, tenant_id=tenant_id)
    return _shown(made) | {"token": token}


def _right(caller: Caller, tenant: str | None) -> int | None:
    """The tenant's id where the caller manages people of it; without one the right for the whole installation."""
    if tenant is not None:
        return access.tenant_id(caller, tenant, "admin")
    access.require_everywhere(caller, "admin")
    return None


def _address(email: str) -> str:
    try:
        validate_email(email)
    except ValidationError:
        raise Invalid(("email", "must be an e-mail address")) from None
    if not validate.storable(email) or len(email) > 254:
        raise Invalid(("email", "must be an e-mail address"))
    return email.lower()


def _open(tenant_id: int | None) -> Any:
    waiting = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=Now())
    return waiting.filter(tenant=None) if tenant_id is None else waiting.filter(tenant_id=tenant_id)


def _shown(invitation: Invitation) -> dict[str, Any]:
    names = ("id", "email", "role", "view_payloads", "created_by", "created_at", "expires_at")
    tenant = invitation.tenant.slug if invitation.tenant else None
    return {name: getattr(invitation, name) for name in names} | {"tenant": tenant}


def list_open(caller: Caller, tenant: str | None = None) -> list[dict[str, Any]]:
    """Invitations that still can be accepted, newest first, without their tokens (scope `admin`)."""
    tenant_id = _right(caller, tenant)
    return [_shown(found) for found in _open(tenant_id).select_related("tenant").order_by("-pk")[:1000]]


def revoke(caller: Caller, invitation_id: int, tenant: str | None = None) -> str:
    """Take an invitation back; the address it was for."""
    with audit.refusals(caller, "revoke_invitation", "person", invitation_id), db.atomic():
        tenant_id = _right(caller, tenant)
        known = _open(tenant_id).filter(pk=invitation_id) if 0 < invitation_id < 2**63 else Invitation.objects.none()
        found = known.select_for_update().first()
        if found is None:
            raise NotFound("There is no such invitation.")
        Invitation.objects.filter(pk=found.pk).update(revoked_at=Now())
        audit.record(caller, "revoke_invitation", "person", found.email, tenant_id=tenant_id)
    return str(found.email)


def find(token: str) -> dict[str, Any]:
    """What a token offers, and whether its address has an account; NotFound for any other text."""
    found = _find(token)
    return _shown(found) | {"known": User.objects.filter(email__iexact=found.email).exists()}


def _find(token: str, *, lock: bool = False) -> Invitation:
    waiting = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=Now())
    waiting = waiting.select_for_update(of=("self",)) if lock else waiting
    found = None
    if token.isascii() and len(token) <= 100:
        found = waiting.select_related("tenant").filter(digest=access.digest(token)).first()
    if found is None or (found.tenant and found.tenant.archived_at):
        raise NotFound(GONE)
    return found


def accept(token: str, user: User) -> dict[str, Any]:
    """Give the signed-in person what was offered to that address; NotFound when it was offered to another one."""
    with db.atomic():
        found = _find(token, lock=True)
        if not user.is_active or user.email.lower() != found.email.lower():
            raise NotFound("This invitation is for another e-mail address.")
        return _give(found, user)


def accept_all(user: User) -> int:
    """Give a person, whose address a trusted provider vouches for, everything that was offered to it; how much."""
    with db.atomic():
        found = waiting_for(user.email)
        for invitation in found:
            _give(invitation, user)
    return len(found)


def waiting_for(email: str) -> list[Invitation]:
    """The open invitations of an address."""
    waiting = Invitation.objects.filter(accepted_at=None, revoked_at=None, expires_at__gt=Now())
    return list(waiting.filter(email__iexact=email, tenant__archived_at=None).select_related("tenant"))


def accept_new(token: str, name: str, password: str) -> User:
    """Make the account of an invited person who has none, and give it what was offered."""
    with db.atomic():
        found = _find(token, lock=True)
        if User.objects.filter(email__iexact=found.email).exists():
            raise Conflict("There is an account with this e-mail address. Sign in first, then open the link again.")
        problems = []
        if problem := validate.text(name, 0, NAME_LENGTH):
            problems.append(("name", problem))
        try:
            validate_password(password, User(email=found.email, name=name))
        except ValidationError as refusal:
            problems += [("password1", " ".join(refusal.messages))]
        if problems:
            raise Invalid(*problems)
        user = User.objects.create_user(found.email, password, name=name.strip())
        _give(found, user)
    return user


def _give(found: Invitation, user: User) -> dict[str, Any]:
    """An invitation adds a role and never takes one away: operators stay operators, members what they are."""
    caller = access.for_user(user)
    fields: dict[str, Any] = {"role": found.role}
    if found.tenant_id is not None:
        fields["view_payloads"] = found.view_payloads
        Membership.objects.get_or_create(user=user, tenant_id=found.tenant_id, defaults=fields)
    elif user.role != "operator":
        user.role = found.role
        user.save(update_fields=["role"])
    kind = "member" if found.tenant_id else "person"
    audit.record(caller, "accept_invitation", kind, user.email, after=fields, tenant_id=found.tenant_id)
    Invitation.objects.filter(pk=found.pk).update(accepted_at=Now())
    sockets.close(user.pk)
    return _shown(found)
