"""The company's sign-in (OpenID Connect) against a provider on loopback: who gets in, who does not."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from controlplane import env
from dispatch.models import Membership, User
from dispatch.services import invitations
from dispatch.services.messages import Caller
from tests.ui import issuer as provider

START = "/login/oidc/company"


@pytest.fixture
def issuer(db: None, settings: Any) -> Iterator[provider.Issuer]:
    with provider.running() as found:
        settings.OIDC = env.oidc(found.url, provider.CLIENT["id"], provider.CLIENT["secret"], "Acme sign-in", False)
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": settings.OIDC}}
        yield found


def come_in(client: Client, issuer: provider.Issuer, email: str, verified: bool = True, **more: str) -> Any:
    """Go to the provider and come back as this person."""
    issuer.claims = {"sub": f"id of {email}", "email": email, "email_verified": verified, "name": "Ana Lima"}
    there = urlsplit(client.post(START, more)["Location"])
    assert f"{there.scheme}://{there.netloc}" == issuer.url
    asked = parse_qs(there.query)
    assert asked["redirect_uri"] == ["http://testserver/login/oidc/company/callback"]
    return client.get(f"{START}/callback", {"code": provider.CODE, "state": asked["state"][0]})


def test_the_door_offers_it(issuer: provider.Issuer) -> None:
    assert "Continue with Acme sign-in" in Client().get("/login").content.decode()


def test_a_person_with_an_account_is_in(issuer: provider.Issuer, pool: None, person: Callable[..., User]) -> None:
    user, client = person("operator"), Client()
    assert come_in(client, issuer, user.email, next="/queues")["Location"] == "/queues"
    assert client.get("/").status_code == 200
    assert "Connected" in client.get("/account").content.decode()
    client.post("/account/company")
    assert "Connected by itself" in client.get("/account").content.decode()


def test_an_invited_person_gets_an_account(issuer: provider.Issuer, pool: None, system: Caller) -> None:
    made = invitations.invite(system, "ana@example.net", "member", "sales")
    client = Client()
    assert "Continue with Acme" in client.get(f"/invitation/{made['token']}").content.decode()
    assert come_in(client, issuer, "Ana@example.net")["Location"] == "/"
    member = Membership.objects.get()
    assert (member.user.email, member.user.name, member.role) == ("ana@example.net", "Ana Lima", "member")
    assert not member.user.has_usable_password()
    client.post("/account/company")
    assert "Set a password first" in client.get("/account").content.decode()


@pytest.mark.parametrize("verified", [False, True])
def test_strangers_and_unproven_addresses_stay_out(
    verified: bool, issuer: provider.Issuer, pool: None, system: Caller, person: Callable[..., User]
) -> None:
    user, client = person("operator"), Client()
    invitations.invite(system, "ana@example.net", "member", "sales")
    emails = ["stranger@example.net"] if verified else [user.email, "ana@example.net"]
    for email in emails:
        answer = come_in(client, issuer, email, verified)
        page = client.get(answer["Location"]) if answer.status_code == 302 else answer
        assert page.status_code < 500
        assert client.get("/account").status_code == 302, "nobody is signed in"
    assert User.objects.count() == 1


def test_what_is_not_ours_is_refused(issuer: provider.Issuer) -> None:
    client = Client()
    issuer.claims = {"sub": "1", "email": "a@example.net", "email_verified": True}
    state = parse_qs(urlsplit(client.post(START)["Location"]).query)["state"][0]
    for given in (
        {"code": "stolen", "state": state},
        {"code": provider.CODE, "state": "made-up"},
        {"error": "denied"},
        {},
    ):
        answer = client.get(f"{START}/callback", given)
        assert answer.status_code < 500
    issuer.audience = "another program"
    state = parse_qs(urlsplit(client.post(START)["Location"]).query)["state"][0]
    assert client.get(f"{START}/callback", {"code": provider.CODE, "state": state}).status_code == 401
    assert client.get("/login/oidc/nowhere").status_code == 404


@pytest.mark.parametrize(
    ("issuer", "client", "secret"),
    [("idp.example.net", "x", "x"), ("https://idp.example.net", "", "x"), ("https://idp.example.net", "x", "")],
)
def test_half_a_configuration_stops_the_start(issuer: str, client: str, secret: str) -> None:
    with pytest.raises(env.BadSetting, match="EVENFLOW_OIDC"):
        env.oidc(issuer, client, secret, "", False)
