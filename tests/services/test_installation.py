"""The first operator and the keys of a start."""

import re

import pytest

from dispatch.errors import Unauthenticated
from dispatch.models import User
from dispatch.services import access, installation, keys

pytestmark = pytest.mark.django_db


def test_the_first_operator_is_made_once() -> None:
    made = installation.first_operator()
    assert made is not None
    email, password = made
    user = User.objects.get()
    assert (user.email, user.role, user.initial_password) == (email, "operator", True)
    assert installation.initial_password_holds(email, password)
    assert installation.first_operator() is None
    assert installation.operator_email() == email


def test_a_changed_password_is_not_the_initial_one() -> None:
    made = installation.first_operator()
    assert made is not None
    assert not installation.initial_password_holds(made[0], "another one")
    User.objects.update(initial_password=False)
    assert not installation.initial_password_holds(*made)


def test_passwords_are_readable_and_differ() -> None:
    some = {installation.readable_password() for _ in range(200)}
    assert len(some) == 200
    assert all(re.fullmatch(r"([a-z]{6}-){3}[a-z]{6}", one) for one in some)


def test_the_keys_of_the_start_before_are_revoked_and_others_are_not() -> None:
    kept = access.system("somebody")
    other = keys.create_key(kept, name="mine", scopes=["read"])["key"]
    old = installation.start_key("this start", ["read", "admin"])
    assert access.authenticate(old).scopes == {"read", "admin"}
    installation.revoke_start_keys()
    with pytest.raises(Unauthenticated):
        access.authenticate(old)
    assert access.authenticate(other).name == "mine"
