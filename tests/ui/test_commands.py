"""Commands of the pages: saved by the services, answered by a toast or by a redirect."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.core.states import State
from dispatch.models import AuditEvent, Task, Tenant, WorkClass

Browse = Callable[..., Client]
HTMX = {"HX-Request": "true"}


def event(answer: Any) -> tuple[str, dict[str, Any]]:
    """Name and detail of the event that htmx gets."""
    [(name, detail)] = json.loads(answer["HX-Trigger"]).items()
    return name, detail


def test_a_weight_is_saved_and_told(pool: None, browse: Browse) -> None:
    answer = browse().post("/policy/class/interactive/weight", {"weight": "2.5", "version": "1"}, headers=HTMX)
    assert (answer.status_code, answer.content) == (204, b"")
    name, detail = event(answer)
    assert (name, detail["text"]) == ("done", "Weight of class interactive is now 2.5")
    assert detail["saved"] == {"weight": "2.5", "version": 2}
    assert WorkClass.objects.get().weight == 2.5
    assert AuditEvent.objects.filter(target="interactive").latest("id").actor_name == "operator-x@example.net"


def test_the_weight_of_a_tenant_too(pool: None, browse: Browse) -> None:
    browse().post("/policy/tenant/sales/weight", {"weight": "3", "version": "1"}, headers=HTMX)
    assert Tenant.objects.get(slug="sales").weight == 3


def test_without_script_the_page_comes_back_with_the_news(pool: None, browse: Browse) -> None:
    client = browse()
    form = {"weight": "2", "version": "1"}
    answer = client.post(
        "/policy/class/interactive/weight", form, follow=True, headers={"Referer": "http://testserver/"}
    )
    assert "Weight of class interactive is now 2" in answer.content.decode()


def test_a_redirect_never_leads_away(pool: None, browse: Browse) -> None:
    form = {"weight": "2", "version": "1"}
    answer: Any = browse().post("/policy/class/interactive/weight", form, headers={"Referer": "http://evil.example/"})
    assert answer["Location"] == "/"


def test_an_edit_of_an_old_version_is_refused_with_the_present_one(pool: None, browse: Browse) -> None:
    client = browse()
    client.post("/policy/class/interactive/weight", {"weight": "2", "version": "1"}, headers=HTMX)
    answer = client.post("/policy/class/interactive/weight", {"weight": "3", "version": "1"}, headers=HTMX)
    assert answer.status_code == 409
    name, detail = event(answer)
    assert (name, detail["slug"]) == ("refused", "version-conflict")
    assert (detail["current"]["weight"], detail["current"]["version"]) == (2.0, 2)
    assert WorkClass.objects.get().weight == 2


@pytest.mark.parametrize("typed", ["", "three", "-1", "nan", "inf", "1e400", "0.0001", "1001", "1,000,000"])
def test_a_weight_that_is_none_is_told_beside_the_field(typed: str, pool: None, browse: Browse) -> None:
    answer = browse().post("/policy/class/interactive/weight", {"weight": typed, "version": "1"}, headers=HTMX)
    assert answer.status_code == 422
    name, detail = event(answer)
    assert name == "refused"
    assert [error["field"] for error in detail["errors"]] == ["weight"]
    assert WorkClass.objects.get().weight == 1


@pytest.mark.parametrize("version", ["", "x", "1.5", "99999999999999999999"])
def test_a_bad_version_is_no_server_error(version: str, pool: None, browse: Browse) -> None:
    answer = browse().post("/policy/class/interactive/weight", {"weight": "2", "version": version}, headers=HTMX)
    assert 400 <= answer.status_code < 500


def test_auditors_and_strangers_change_nothing(pool: None, browse: Browse) -> None:
    for role in ("auditor", ""):
        form = {"weight": "9", "version": "1"}
        assert browse(role).post("/policy/class/interactive/weight", form, headers=HTMX).status_code == 403
    answer: Any = Client().post("/policy/class/interactive/weight", {"weight": "9", "version": "1"})
    assert answer["Location"].startswith("/login")
    assert WorkClass.objects.get().weight == 1


def test_commands_need_the_token_of_the_form(pool: None, browse: Browse) -> None:
    client = browse()
    client.handler.enforce_csrf_checks = True
    answer = client.post("/policy/class/interactive/weight", {"weight": "9", "version": "1"})
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()


def test_other_objects_and_methods_are_no_addresses(pool: None, browse: Browse) -> None:
    client = browse()
    assert client.post("/policy/pool/default/weight", {"weight": "2", "version": "1"}).status_code == 404
    assert client.post("/policy/class/missing/weight", {"weight": "2", "version": "1"}, headers=HTMX).status_code == 404
    assert client.get("/policy/class/interactive/weight").status_code == 405
    assert client.post("/queues").status_code == 405


def test_a_dead_letter_is_requeued_once(task: Callable[..., int], browse: Browse) -> None:
    number, client = task(), browse()
    Task.objects.update(
        state=State.DEAD, reason="max_attempts", error={"message": "boom"}, finished_at="2026-01-01T00Z"
    )
    text = client.get("/dead").content.decode()
    assert "boom" in text or "max attempts" in text
    answer = client.post(f"/tasks/{number}/requeue", headers=HTMX)
    name, detail = event(answer)
    assert (name, detail["text"]) == ("done", f"Task {number:,} requeued")
    assert detail["link"] == {"href": f"/tasks/{number}", "word": "Follow"}
    assert Task.objects.get().state == State.QUEUED
    again = client.post(f"/tasks/{number}/requeue", headers=HTMX)
    assert (again.status_code, event(again)[0]) == (409, "refused")
    assert client.post("/tasks/9223372036854775808/requeue", headers=HTMX).status_code == 404


def test_a_waiting_task_is_cancelled(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    answer = browse().post(f"/tasks/{number}/cancel", headers=HTMX)
    assert event(answer)[1]["text"] == f"Task {number:,} cancelled"
    assert Task.objects.get().state == State.CANCELLED


def test_a_reason_is_kept_with_the_command(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    browse().post(f"/tasks/{number}/cancel", {"reason": "sent twice"}, headers=HTMX)
    assert AuditEvent.objects.get(action="cancel").reason == "sent twice"


def test_a_lease_is_revoked_with_a_reason_only(task: Callable[..., int], browse: Browse) -> None:
    number, client = task(), browse()
    answer = client.post(f"/tasks/{number}/revoke", headers=HTMX)
    assert (answer.status_code, event(answer)[1]["errors"][0]["field"]) == (422, "reason")
    answer = client.post(f"/tasks/{number}/revoke", {"reason": "stuck"}, headers=HTMX)
    assert (answer.status_code, event(answer)[1]["text"]) == (409, "The task is not leased.")
    assert browse("auditor").post(f"/tasks/{number}/revoke", {"reason": "x"}, headers=HTMX).status_code == 403
