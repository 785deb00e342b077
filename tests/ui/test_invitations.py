"""Invitations, sessions and second factors, walked through as a browser would."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.test import Client
from django.utils import timezone

from dispatch.models import Invitation, Membership, User
from dispatch.services import invitations
from dispatch.services.messages import Caller
from tests.ui.conftest import PASSWORD

Person = Callable[..., User]


def sign_in(person: User) -> Client:
    client = Client()
    answer = client.post("/login", {"login": person.email, "password": PASSWORD})
    assert answer.status_code == 302, answer.content
    return client


def code(secret: str) -> str:
    counter = next(iter(yield_hotp_counters_from_time()))
    return format_hotp_value(hotp_value(secret, counter))


def test_an_invited_stranger_makes_an_account_and_is_in(pool: None, system: Caller) -> None:
    made = invitations.invite(system, "New@Example.net", "member", "sales", view_payloads=True)
    client, link = Client(), f"/invitation/{made['token']}"
    assert "offers you the role member in the department sales" in client.get(link).content.decode()
    for wrong, sentence in (
        ({"password1": "short", "password2": "short"}, "at least 10"),
        ({"password1": PASSWORD, "password2": "other"}, "differ"),
    ):
        answer = client.post(link, {"name": "Ana", **wrong})
        assert answer.status_code == 400
        assert sentence in answer.content.decode()
    before = client.session.session_key
    answer = client.post(link, {"name": "Ana", "password1": PASSWORD, "password2": PASSWORD})
    assert answer["Location"] == "/t/sales/"
    assert client.session.session_key not in {None, before}
    member = Membership.objects.get(user__email="new@example.net")
    assert (member.role, member.view_payloads, member.user.name) == ("member", True, "Ana")
    for again in (client, Client()):
        assert again.get(link).status_code == 404
        assert again.post(link, {"password1": PASSWORD, "password2": PASSWORD}).status_code == 404


def test_a_known_person_signs_in_to_accept_and_nobody_else_can(pool: None, system: Caller, person: Person) -> None:
    known, other = person("auditor"), person("operator")
    made = invitations.invite(system, known.email, "admin", "legal")
    link = f"/invitation/{made['token']}"
    assert "Sign in to accept" in Client().get(link).content.decode()
    assert Client().post(link, {"password1": PASSWORD, "password2": PASSWORD}).status_code == 200
    assert not Membership.objects.exists()
    stranger = sign_in(other)
    assert "but this invitation is for" in stranger.get(link).content.decode()
    assert stranger.post(link).status_code == 404
    client = sign_in(known)
    assert client.post(link)["Location"] == "/t/legal/"
    assert Membership.objects.get().user == known
    assert User.objects.get(pk=known.pk).role == "auditor"


def test_an_old_or_withdrawn_invitation_is_over(pool: None, system: Caller) -> None:
    made = invitations.invite(system, "a@example.net", "viewer", "sales")
    again = invitations.invite(system, "a@example.net", "viewer", "sales")
    assert Client().get(f"/invitation/{made['token']}").status_code == 404, "a second one replaces the first"
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    for token in (again["token"], "x", "é", "x" * 500):
        assert Client().get(f"/invitation/{token}").status_code == 404


def test_an_authenticator_app_is_asked_for_and_recovery_codes_help(pool: None, person: Person) -> None:
    user = person("operator")
    client = sign_in(user)
    asked = client.get("/account/totp/activate")["Location"]
    assert asked.startswith("/account/confirm"), "what changes the way in asks for the password again"
    assert client.post(asked, {"password": "wrong"}).status_code == 200
    assert client.post(asked, {"password": PASSWORD, "next": "/account/totp/activate"}).status_code == 302
    page = client.get("/account/totp/activate").content.decode()
    secret = re.search(r'id="secret"[^>]*value="(\w+)"', page)
    assert secret
    assert client.post("/account/totp/activate", {"code": "000000"}).status_code == 200
    answer = client.post("/account/totp/activate", {"code": code(secret[1])})
    assert answer["Location"] == "/account/codes"
    stored = Authenticator.objects.get(type="totp").data["secret"]
    assert secret[1] not in stored, "the secret is sealed"
    codes = re.findall(r"<li>(\d{8})</li>", client.get("/account/codes").content.decode())
    assert len(codes) == 10
    assert codes[0] in client.get("/account/codes/download").content.decode()

    fresh = Client()
    answer = fresh.post("/login?next=/queues", {"login": user.email, "password": PASSWORD, "next": "/queues"})
    assert answer["Location"].startswith("/login/code")
    assert fresh.get("/").status_code == 302, "the password alone opens nothing"
    assert "not right" in fresh.post("/login/code", {"code": "12345678"}).content.decode()
    assert fresh.post("/login/code", {"code": codes[0]})["Location"] == "/queues"
    assert fresh.get("/").status_code == 200
    asked = fresh.get("/account/totp/deactivate")["Location"]
    assert fresh.post(asked, {"password": PASSWORD, "next": "/account/totp/deactivate"}).status_code == 302
    assert fresh.get("/account/totp/deactivate").status_code == 200
    assert fresh.post("/account/totp/deactivate")["Location"] == "/account/security"
    assert not Authenticator.objects.exists()


def test_sessions_are_listed_and_ended(pool: None, person: Person) -> None:
    user = person("operator")
    here, there, third = sign_in(user), sign_in(user), sign_in(user)
    page = here.get("/account").content.decode()
    assert page.count("this one") == 1
    ends = re.findall(r'action="(/account/sessions/\d+/end)"', page)
    assert len(ends) == 2
    stranger = sign_in(person("auditor"))
    assert stranger.post(ends[0]).status_code == 404
    assert here.post(ends[0]).status_code == 302
    signed_in = [client.get("/").status_code == 200 for client in (there, third)]
    assert sorted(signed_in) == [False, True]
    here.post("/account/sessions/others/end")
    assert not any(client.get("/").status_code == 200 for client in (there, third))
    assert here.get("/").status_code == 200


def test_a_reset_link_works_once_and_ends_every_session(pool: None, person: Person, mailoutbox: list[Any]) -> None:
    user = person("operator")
    signed_in = sign_in(user)
    for email in (user.email, "nobody@example.net"):
        answer = Client().post("/account/password/reset", {"email": email})
        assert answer["Location"] == "/account/password/reset/sent"
    [mail] = mailoutbox
    assert mail.to == [user.email]
    link = re.search(r"http://testserver(\S+)", mail.body)
    assert link
    client = Client()
    form = client.get(link[1])["Location"]
    assert link[1].rsplit("-", 1)[1] not in form, "the key is not in the address of the form"
    assert "New password" in client.get(form).content.decode()
    new = {"password1": "another long one", "password2": "another long one"}
    assert client.post(form, new)["Location"] == "/account/password/reset/done"
    assert signed_in.get("/").status_code == 302
    assert "This link is over" in Client().get(link[1]).content.decode()
    assert Client().post("/login", {"login": user.email, "password": PASSWORD}).status_code == 200
    assert Client().post("/login", {"login": user.email, "password": "another long one"}).status_code == 302


def test_a_session_made_before_signing_in_is_worth_nothing(person: Person) -> None:
    user = person("operator")
    attacker = Client()
    attacker.get("/login")
    attacker.get("/account/password/reset")
    session = attacker.session
    session["planted"] = "1"
    session.save()
    victim = Client()
    victim.cookies = attacker.cookies
    assert victim.post("/login", {"login": user.email, "password": PASSWORD}).status_code == 302
    thief = Client()
    thief.cookies["sessionid"] = session.session_key
    assert thief.get("/account").status_code == 302


def test_the_profile_is_checked_and_kept(pool: None, person: Person) -> None:
    user = person("operator")
    client = sign_in(user)
    assert client.post("/account", {"name": "Ada", "timezone": "Mars/Base"}).status_code == 400
    assert client.post("/account", {"alert_mail": "loud"}).status_code == 400
    given = {"name": "Ada <b>", "timezone": "Europe/Berlin", "alert_mail": ["critical"]}
    assert client.post("/account", given).status_code == 302
    user.refresh_from_db()
    assert (user.name, user.timezone, user.shortcuts, user.alert_mail) == (
        "Ada <b>",
        "Europe/Berlin",
        False,
        ["critical"],
    )
    assert "Ada &lt;b&gt;" in client.get("/account").content.decode()


def test_people_without_a_role_reach_their_account(person: Person) -> None:
    assert sign_in(person()).get("/account").status_code == 200


@pytest.mark.parametrize("signed_in", [False, True])
def test_no_account_address_fails(signed_in: bool, pool: None, person: Person) -> None:
    from dispatch.ui import account_urls

    client = sign_in(person("operator")) if signed_in else Client()
    client.raise_request_exception = False
    for pattern in account_urls.urlpatterns:
        path = "/" + re.sub(r"<[^>]*>", "1", str(pattern.pattern)).replace("^", "").replace("$", "")
        path = "/account/password/reset/1-a" if "uidb36" in path else path
        for answer in (client.get(path), client.post(path, {"credential": "{}", "code": "1"})):
            assert answer.status_code < 500, path
