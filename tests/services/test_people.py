"""Roles, members and who is left: what operators and departments' admins may change, and what follows at once."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.errors import Conflict, EvenflowError, Forbidden, Invalid, NotFound
from dispatch.models import AuditEvent, Membership, User
from dispatch.services import access, invitations, people, sockets
from dispatch.services.messages import Caller
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the people whose sockets were closed."""
    found: list[int] = []
    monkeypatch.setattr(sockets, "close", lambda person_id, session=None: found.append(person_id))
    return found


def who(caller: Caller) -> int:
    assert caller.id is not None
    return caller.id


def test_an_operator_gives_and_takes_roles(closed: list[int]) -> None:
    boss, other = person("operator"), person()
    assert people.set_role(boss, who(other), "auditor", "reads the books")["role"] == "auditor"
    assert closed == [who(other)]
    entry = AuditEvent.objects.get(action="set_role")
    assert (entry.before, entry.after, entry.reason) == ({"role": None}, {"role": "auditor"}, "reads the books")
    assert people.set_active(boss, who(other), False)["active"] is False
    assert not access.may(access.for_user(User.objects.get(pk=who(other))), "read")
    with pytest.raises(Invalid):
        people.set_role(boss, who(other), "king")
    for missing in (0, 10**9, 2**70):
        with pytest.raises(NotFound):
            people.set_role(boss, missing, "auditor")


def test_one_operator_is_always_left() -> None:
    boss = person("operator")
    person("operator")
    people.set_active(boss, who(boss), False)
    last = User.objects.get(role="operator", is_active=True)
    for change in (lambda: people.set_role(ROOT, last.pk, ""), lambda: people.set_active(ROOT, last.pk, False)):
        with pytest.raises(Conflict):
            change()
    last.refresh_from_db()
    assert (last.role, last.is_active) == ("operator", True)


def test_deactivating_ends_the_sessions() -> None:
    user = User.objects.create_user("x@example.org", "secret-secret", role="auditor")
    client = Client()
    assert client.post("/login", {"login": user.email, "password": "secret-secret"}).status_code == 302
    people.set_active(ROOT, user.pk, False)
    people.set_active(ROOT, user.pk, True)
    assert client.get("/account").status_code == 302


@pytest.mark.parametrize(
    "verb",
    [
        lambda who: people.list_people(who),
        lambda who: people.set_role(who, 1, "operator"),
        lambda who: people.set_active(who, 1, False),
        lambda who: invitations.invite(who, "a@example.net", "operator"),
        lambda who: invitations.list_open(who),
        lambda who: invitations.revoke(who, 1),
    ],
)
def test_people_are_the_operators_business(verb: Callable[[Caller], Any]) -> None:
    for caller in (person(alpha="admin"), person(), key("admin", "read", tenant="alpha"), key("submit", "work")):
        with pytest.raises(Forbidden):
            verb(caller)


def test_an_admin_manages_the_members_of_the_own_department(closed: list[int]) -> None:
    boss, member, foreign = person(alpha="admin"), person(alpha="member"), person(beta="member")
    assert [found["role"] for found in people.list_members(boss, "alpha")] == ["admin", "member"]
    changed = people.set_member(boss, "alpha", who(member), "viewer", True)
    assert (changed["role"], changed["view_payloads"]) == ("viewer", True)
    assert closed == [who(member)]
    with pytest.raises(Invalid):
        people.set_member(boss, "alpha", who(member), "operator")
    with pytest.raises(NotFound):
        people.set_member(boss, "alpha", who(foreign), "viewer")
    assert people.remove_member(boss, "alpha", who(member))["email"]
    assert not Membership.objects.filter(user_id=who(member)).exists()
    for verb in (
        lambda caller, tenant: people.set_member(caller, tenant, who(foreign), "viewer"),
        lambda caller, tenant: people.remove_member(caller, tenant, who(foreign)),
        lambda caller, tenant: invitations.invite(caller, "a@example.net", "viewer", tenant),
        lambda caller, tenant: invitations.list_open(caller, tenant),
    ):
        refusals: list[EvenflowError] = []
        for tenant in ("beta", "gamma", "No Slug"):
            with pytest.raises(NotFound) as refusal:
                verb(boss, tenant)
            refusals.append(refusal.value)
        assert len({refusal.detail for refusal in refusals}) == 1, "another tenant answers as a missing one"
        for caller in (person(beta="member"), person("auditor"), key("operate", "read")):
            with pytest.raises(Forbidden):
                verb(caller, "beta")


def test_the_last_admin_stays_unless_an_operator_says_so() -> None:
    boss = person(alpha="admin")
    for change in (
        lambda caller: people.set_member(caller, "alpha", who(boss), "viewer"),
        lambda caller: people.remove_member(caller, "alpha", who(boss)),
    ):
        with pytest.raises(Conflict):
            change(boss)
    person(alpha="admin")
    people.set_member(boss, "alpha", who(boss), "viewer")
    assert people.remove_member(person("operator"), "alpha", who(boss))


def test_an_invitation_never_takes_a_role_away() -> None:
    boss = User.objects.create_user("boss@example.org", "secret-secret", role="operator")
    made = invitations.invite(ROOT, boss.email, "auditor")
    invitations.accept(made["token"], boss)
    boss.refresh_from_db()
    assert boss.role == "operator"
    inside = invitations.invite(ROOT, boss.email, "viewer", "alpha")
    Membership.objects.create(user=boss, tenant_id=access.tenant_id(ROOT, "alpha", "read"), role="admin")
    invitations.accept(inside["token"], boss)
    assert Membership.objects.get().role == "admin"
    with pytest.raises(Conflict):
        invitations.invite(ROOT, boss.email, "viewer", "alpha")


@pytest.mark.parametrize("email", ["", "x", "a@", "a\0@example.net", "a@example.net\nBcc: b@example.net"])
def test_an_address_that_is_none_is_refused(email: str) -> None:
    with pytest.raises(Invalid) as refusal:
        invitations.invite(ROOT, email, "auditor")
    assert refusal.value.errors[0]["field"] == "email"


def test_a_department_learns_nothing_about_accounts_elsewhere() -> None:
    """Inviting a stranger and inviting somebody with an account look the same."""
    boss, known = person(alpha="admin"), person(beta="member")
    answers = [invitations.invite(boss, email, "viewer", "alpha") for email in (known.name, "nobody@example.net")]
    assert answers[0].keys() == answers[1].keys()
    shown = invitations.list_open(boss, "alpha")
    assert {found["email"] for found in shown} == {known.name, "nobody@example.net"}
    assert all("token" not in found for found in shown)
