"""What a new installation needs before anybody can sign in: its first operator, and one key for each start of `up`."""

import secrets
from collections.abc import Sequence

from django.db import transaction

from dispatch.models import User
from dispatch.services import access, keys

OPERATOR_EMAIL = "operator@evenflow.local"
START = "manage.py up"  # maker of the keys that live for one start


def first_operator() -> tuple[str, str] | None:
    """Make the first operator where there is none; its e-mail address and password, told only here.

    The password is valid until it is changed; pages ask for that as long as `initial_password` is set.
    """
    with transaction.atomic():
        if User.objects.filter(role="operator").exists():
            return None
        password = readable_password()
        User.objects.create_superuser(OPERATOR_EMAIL, password, name="Operator", initial_password=True)
    return OPERATOR_EMAIL, password


def operator_email() -> str:
    """The e-mail address of the longest-serving active operator; the first one's where nobody is left."""
    operator = User.objects.filter(role="operator", is_active=True).order_by("pk").first()
    return operator.email if operator else OPERATOR_EMAIL


def initial_password_holds(email: str, password: str) -> bool:
    """Whether this is still the initial password of that operator."""
    user = User.objects.filter(email=email, role="operator", is_active=True, initial_password=True).first()
    return user is not None and user.check_password(password)


def readable_password() -> str:
    """Four groups of three syllables: 75 bits that can be read aloud and typed."""

    def syllable() -> str:
        return secrets.choice("bdfghjklmnprstvz") + secrets.choice("aeiou")

    return "-".join("".join(syllable() for _ in range(3)) for _ in range(4))


def start_key(name: str, scopes: Sequence[str], tenant: str | None = None) -> str:
    """A key for this start of `up` or `demo`; the next start revokes it."""
    made = keys.create_key(access.system(START), name=f"{START}: {name}", scopes=scopes, tenant=tenant)
    return str(made["key"])


def revoke_start_keys() -> None:
    """Revoke the keys that earlier starts made."""
    caller = access.system(START)
    cursor = None
    while True:
        page = keys.list_keys(caller, 1000, cursor)
        for key in page.items:
            if key["created_by"] == START and key["revoked_at"] is None:
                keys.revoke_key(caller, key["id"])
        cursor = page.next_cursor
        if cursor is None:
            return
