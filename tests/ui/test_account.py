"""Signing in, signing out, changing the password."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.models import User
from tests.ui.conftest import PASSWORD

Browse = Callable[..., Client]


def sign_in(client: Client, email: str, password: str, **more: str) -> Any:
    return client.post("/login", {"login": email, "password": password, **more})


def test_the_door_leads_to_the_page_that_was_asked_for(person: Callable[..., User]) -> None:
    person("operator")
    client = Client()
    assert "Sign in" in client.get("/login?next=/queues").content.decode()
    answer = sign_in(client, "operator-x@example.net", PASSWORD, next="/queues")
    assert answer["Location"] == "/queues"
    assert client.get("/queues").status_code == 200


def test_it_leads_nowhere_else(person: Callable[..., User]) -> None:
    person("operator")
    answer = sign_in(Client(), "operator-x@example.net", PASSWORD, next="https://evil.example/")
    assert answer["Location"] == "/"


@pytest.mark.parametrize("email", ["operator-x@example.net", "nobody@example.net"])
def test_a_wrong_password_says_no_more_than_that(email: str, person: Callable[..., User]) -> None:
    person("operator")
    answer = sign_in(Client(), email, "wrong")
    assert answer.status_code == 200
    assert "This e-mail address and password do not belong together." in answer.content.decode()


def test_many_wrong_passwords_are_stopped(person: Callable[..., User]) -> None:
    person("operator")
    client = Client()
    for _ in range(5):
        sign_in(client, "operator-x@example.net", "wrong")
    assert "Too many tries" in sign_in(client, "operator-x@example.net", PASSWORD).content.decode()


def test_nobody_signs_up(db: None) -> None:
    client = Client()
    assert "Accounts are made by the operators" in client.get("/account/signup").content.decode()
    client.post("/account/signup", {"email": "me@example.net", "password1": PASSWORD, "password2": PASSWORD})
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "name", ["password/reset/", "email/", "2fa/", "2fa/totp/activate/", "password/change/", "logout/"]
)
def test_account_pages_that_are_not_ours_do_not_exist(pool: None, browse: Browse, name: str) -> None:
    assert browse().get(f"/account/{name}").status_code == 404


def test_signing_out_ends_the_session(browse: Browse) -> None:
    client = browse()
    assert "Sign out?" in client.get("/logout").content.decode()
    assert client.post("/logout")["Location"] == "/login"
    assert client.get("/").status_code == 302


def test_the_banner_asks_until_the_initial_password_is_changed(pool: None, browse: Browse) -> None:
    client = browse(initial_password=True)
    words = "You still use the initial password."
    assert words in client.get("/").content.decode()
    fresh = "quite another one"
    form = {"oldpassword": PASSWORD, "password1": fresh, "password2": fresh}
    answer = client.post("/account/password", form, follow=True)
    text = answer.content.decode()
    assert answer.redirect_chain == [("/", 302)]
    assert words not in text and "Password changed" in text
    assert User.objects.get().check_password(fresh)


def test_a_bad_new_password_is_told(pool: None, browse: Browse) -> None:
    client = browse(initial_password=True)
    form = {"oldpassword": "wrong", "password1": "short", "password2": "other"}
    text = client.post("/account/password", form).content.decode()
    assert "at least 10 characters" in text and "aria-invalid" in text
    assert User.objects.get().initial_password


def test_a_person_who_may_see_nothing_can_still_sign_out_and_change_the_password(browse: Browse) -> None:
    client = browse("")
    assert 'action="/logout"' in client.get("/").content.decode()
    assert client.get("/account/password").status_code == 200


def test_people_of_a_department_arrive_there(pool: None, person: Callable[..., User]) -> None:
    person("", tenant="sales", inside="viewer")
    assert sign_in(Client(), "viewer-sales@example.net", PASSWORD)["Location"] == "/t/sales/"


def test_the_own_wishes_reach_the_page(pool: None, browse: Browse) -> None:
    client = browse("operator", shortcuts=False, timezone="Asia/Tokyo")
    assert 'data-keys="off" data-home="Asia/Tokyo"' in client.get("/account").content.decode()


def test_no_form_is_taken_from_elsewhere(pool: None, browse: Browse) -> None:
    """Without the token of this session every command is refused, whoever sends it."""
    from tests.access import calls
    from tests.access.world import Side

    client = Client(enforce_csrf_checks=True)
    client.cookies = browse("operator").cookies
    ids = ("task_id", "worker_id", "job_id", "silence_id", "alert_id", "leased")
    side = Side("sales", {"tenant": "sales"} | dict.fromkeys(ids, 1))
    for route, _ in calls.pages():
        where = calls.place(route, side)
        assert client.post(where, calls.FORM).status_code == 403, where
