"""The pages of a department: what its people see and do, and what they never see."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.models import ApiKey, Invitation, Membership, QuotaRequest, Tenant, TenantUser, User
from dispatch.services import access, policy, quota_requests
from dispatch.services.messages import Caller
from tests.services.world import bury, lease

Browse = Callable[..., Client]
CONSOLE = "django.core.mail.backends.console.EmailBackend"
PAGES = ["", "quota", "members", "keys", "webhooks", "usage", "usage.csv"]


@pytest.fixture
def sales(pool: None, task: Callable[..., int], system: Caller) -> Callable[..., Any]:
    """The department with a quota of 2, three tasks of which one runs, and foreign work beside it."""
    version = policy.get(system, "tenant", "sales")["version"]
    policy.patch(system, "tenant", "sales", version, {"nominal": 2, "max": 4}, "start")
    lease(task(user="ana"))
    task(user="ana")
    task(user="bo")
    task(tenant="legal", user="secret-user")
    return task


def member(browse: Browse, inside: str = "admin", tenant: str = "sales") -> Client:
    return browse("", tenant=tenant, inside=inside)


def test_a_departments_administrators_pause_and_resume_it_on_its_page(sales: Any, browse: Browse) -> None:
    admin, viewer, operator = member(browse), member(browse, "viewer"), browse("operator")
    assert 'action="/pause/tenant/sales"' in text(admin.get("/t/sales/"))
    assert "/pause/tenant" not in text(viewer.get("/t/sales/"))
    admin.post("/pause/tenant/sales", {"reason": "our <b>flood</b>", "minutes": "60"})
    shown = text(admin.get("/t/sales/"))
    assert "our &lt;b&gt;flood&lt;/b&gt;" in shown and "It resumes by itself at" in shown
    assert 'action="/resume/tenant/sales"' in shown
    assert "our &lt;b&gt;flood" in text(viewer.get("/t/sales/")), "members see why nothing starts"
    admin.post("/resume/tenant/sales", {"reason": "over"})
    assert not Tenant.objects.get(slug="sales").paused
    operator.post("/pause/tenant/sales", {"reason": "audit"})
    shown = text(admin.get("/t/sales/"))
    assert "An operator has to take this pause off." in shown and "/resume/tenant" not in shown
    assert 'action="/resume/tenant/sales"' in text(operator.get("/t/sales/"))


def text(answer: Any) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(content.decode())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("inside", ["admin", "member", "viewer"])
def test_a_member_sees_the_own_department_and_no_other(page: str, inside: str, sales: Any, browse: Browse) -> None:
    client = member(browse, inside)
    answer = client.get(f"/t/sales/{page}")
    admins_only = page in ("keys", "webhooks") and inside != "admin"
    assert answer.status_code == (403 if admins_only else 200)
    shown = text(answer)
    assert "legal" not in shown and "secret-user" not in shown
    for hidden in ("legal", "nobody", "No%20Slug"):
        refused = client.get(f"/t/{hidden}/{page}")
        assert refused.status_code == 404
        assert "secret-user" not in text(refused)


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_operators_and_auditors_see_every_department(role: str, sales: Any, browse: Browse) -> None:
    client = browse(role)
    for page in PAGES:
        expected = 403 if role == "auditor" and page in ("keys", "webhooks") else 200
        assert client.get(f"/t/sales/{page}").status_code == expected, page
    for page in ("/people", "/keys", "/requests"):
        expected = 403 if role == "auditor" and page == "/keys" else 200
        assert client.get(page).status_code == expected, page


def test_the_overview_tells_share_waits_and_users(sales: Any, browse: Browse) -> None:
    bury(sales(), error={"message": "no such <account>"}, fingerprint="f00d")
    page = text(member(browse).get("/t/sales/"))
    assert "no such &lt;account&gt;" in page
    assert "2 queued, 1 running, nothing past its SLO" in page
    assert ">2 our quota<" in page and ">4 with borrowing<" in page
    assert ">ana<" in page and ">bo<" in page
    assert 'data-topic="department"' in page


def test_live_numbers_of_a_department_are_for_its_people(sales: Any, browse: Browse) -> None:
    client = member(browse, "viewer")
    answer = client.get("/live/department.json?tenant=sales").json()
    assert answer["changes"]["share.running"] == "1"
    assert "secret-user" not in str(answer)
    assert client.get("/live/department.json?tenant=legal").status_code == 404
    assert client.get("/live/department.json").status_code == 404


def test_an_admin_sets_limits_inside_the_ceiling_and_asks_for_more(sales: Any, browse: Browse, system: Caller) -> None:
    client = member(browse)
    page = text(client.get("/t/sales/quota"))
    version = re.search(r'name="version" value="(\d+)"[^>]*>\s*<div class="field"><label for="l-max"', page)
    assert version
    form = {"part": "own", "version": version[1], "was-max": "4", "max": "3", "reason": "calm down"}
    assert client.post("/t/sales/quota", form).status_code == 302
    assert Tenant.objects.get(slug="sales").max == 3
    again = client.post("/t/sales/quota", form | {"max": "2", "was-max": "3"})
    assert again.status_code == 409
    above = form | {"version": str(int(version[1]) + 1), "was-max": "3", "max": "9"}
    refused = client.post("/t/sales/quota", above)
    assert refused.status_code == 422 and "must be at most 4" in text(refused)
    user = {"part": "user", "name": "ana", "max": "1", "version": "1"}
    assert client.post("/t/sales/quota", user).status_code == 302
    assert TenantUser.objects.get(name="ana").max == 1
    assert client.post("/t/sales/quota", {"part": "class", "name": "interactive", "max": "2"}).status_code == 302
    for bad in ({"part": "user", "name": "ana", "max": "many"}, {"part": "nothing"}, {"part": "own"}):
        assert client.post("/t/sales/quota", bad).status_code == 422
    asked = {"part": "request", "field": "max", "value": "56", "reason": "<b>quarter end</b>"}
    assert client.post("/t/sales/quota", asked).status_code == 302
    [request] = quota_requests.list_requests(system, "open").items

    operator = browse("operator")
    inbox = text(operator.get("/requests"))
    assert "&lt;b&gt;quarter end&lt;/b&gt;" in inbox and ">56<" in inbox
    current = policy.get(system, "tenant", "sales")["version"]
    answer = {"id": request["id"], "do": "approve", "version": current}
    assert client.post("/requests", answer).status_code == 403
    assert operator.post("/requests", answer | {"version": current - 1}).status_code == 409
    assert operator.post("/requests", answer).status_code == 302
    assert Tenant.objects.get(slug="sales").max == 56
    client.post("/t/sales/quota", asked | {"value": "99"})
    second = QuotaRequest.objects.get(state="open")
    assert operator.post("/requests", {"id": second.pk, "do": "refuse"}).status_code == 422, "declining needs a reason"
    assert operator.post("/requests", {"id": second.pk, "do": "refuse", "note": "not now"}).status_code == 302
    assert "not now" in text(client.get("/t/sales/quota"))


def test_members_who_are_no_admins_change_nothing(sales: Any, browse: Browse) -> None:
    for client in (member(browse, "member"), member(browse, "viewer"), browse("auditor")):
        for path, form in (
            ("quota", {"part": "user", "name": "ana", "max": "1"}),
            ("quota", {"part": "request", "field": "nominal", "value": "9", "reason": "x"}),
            ("members", {"do": "invite", "email": "a@example.net", "role": "admin"}),
            ("members", {"do": "set", "id": User.objects.first().pk, "role": "admin"}),  # type: ignore[union-attr]
            ("keys", {"do": "create", "name": "x", "scopes": "read"}),
            ("webhooks", {"do": "create", "name": "x", "url": "https://example.net", "events": "task.dead"}),
        ):
            assert client.post(f"/t/sales/{path}", form).status_code == 403, path
    assert not ApiKey.objects.exists() and not Invitation.objects.exists()


def test_an_admin_invites_changes_and_removes_members(sales: Any, browse: Browse, settings: Any) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    client = member(browse)
    answer = client.post("/t/sales/members", {"do": "invite", "email": "new@example.net", "role": "member"})
    link = re.search(r"http://testserver(/invitation/\S+?)<", text(answer))
    assert link, "without a mail server the link is shown, once"
    assert Client().get(link[1]).status_code == 200
    assert link[1] not in text(client.get("/t/sales/members"))
    assert client.post("/t/sales/members", {"do": "invite", "email": "x", "role": "member"}).status_code == 422
    browse("", tenant="sales", inside="viewer")
    other = Membership.objects.get(role="viewer")
    change = {"do": "set", "id": other.user_id, "role": "member", "view_payloads": "on"}
    assert client.post("/t/sales/members", change).status_code == 302
    other.refresh_from_db()
    assert (other.role, other.view_payloads) == ("member", True)
    me = Membership.objects.get(role="admin").user_id
    refused = client.post("/t/sales/members", {"do": "remove", "id": me})
    assert refused.status_code == 409 and "last admin" in text(refused)
    assert client.post("/t/sales/members", {"do": "remove", "id": other.user_id}).status_code == 302
    assert client.post("/t/sales/members", {"do": "remove", "id": other.user_id}).status_code == 404
    assert client.post("/t/sales/members", {"do": "nothing"}).status_code == 422


def test_an_admin_makes_rotates_and_revokes_keys_of_the_department(sales: Any, browse: Browse, system: Caller) -> None:
    client = member(browse)
    form = {"do": "create", "name": "crm-sync", "scopes": ["submit", "read"], "ends": "30"}
    made = text(client.post("/t/sales/keys", form))
    raw = re.search(r"ef_\w{8}_\w+", made)
    assert raw and access.authenticate(raw[0]).tenant_id == Tenant.objects.get(slug="sales").pk
    key = ApiKey.objects.get()
    assert raw[0] not in text(client.get("/t/sales/keys"))
    rotated = re.search(
        r"ef_\w{8}_\w+", text(client.post("/t/sales/keys", {"do": "rotate", "id": key.pk, "overlap": "3600"}))
    )
    assert rotated and rotated[0] != raw[0] and access.authenticate(raw[0])
    assert client.post("/t/sales/keys", {"do": "revoke", "id": key.pk}).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None
    for bad in ({"do": "create", "name": "", "scopes": ["read"]}, {"do": "create", "name": "x"}, {"do": "x"}):
        assert client.post("/t/sales/keys", bad).status_code == 422
    assert client.post("/t/sales/keys", {"do": "create", "name": "x", "scopes": ["admin"]}).status_code == 403
    assert client.post("/t/sales/keys", {"do": "revoke", "id": "9" * 30}).status_code == 404
    assert client.get("/keys").status_code == 403


def test_operators_manage_keys_of_the_fleet(sales: Any, browse: Browse) -> None:
    client = browse("operator")
    form = {"do": "create", "name": "agents", "scopes": ["work"], "tenant": "legal", "ends": ""}
    assert "ef_" in text(client.post("/keys", form))
    key = ApiKey.objects.get()
    assert key.tenant and key.tenant.slug == "legal"
    assert client.post("/t/sales/keys", {"do": "revoke", "id": key.pk}).status_code == 404, "not a key of this page"
    assert client.post("/keys", {"do": "revoke", "id": key.pk}).status_code == 302


def test_an_invitation_is_mailed_where_there_is_a_mail_server(sales: Any, browse: Browse, mailoutbox: Any) -> None:
    form = {"do": "invite", "email": "new@example.net", "role": "viewer"}
    assert "/invitation/" not in text(member(browse).post("/t/sales/members", form))
    [mail] = mailoutbox
    assert mail.to == ["new@example.net"] and "viewer of the department sales" in mail.body
    link = re.search(r"http://testserver(/invitation/\S+)", mail.body)
    assert link and Client().get(link[1]).status_code == 200


def test_operators_manage_people(sales: Any, browse: Browse, settings: Any) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    client = browse("operator")
    browse("auditor")
    auditor = User.objects.get(role="auditor")
    assert client.post("/people", {"do": "role", "id": auditor.pk, "role": ""}).status_code == 302
    assert client.post("/people", {"do": "deactivate", "id": auditor.pk}).status_code == 302
    auditor.refresh_from_db()
    assert (auditor.role, auditor.is_active) == ("", False)
    me = User.objects.get(role="operator")
    assert client.post("/people", {"do": "role", "id": me.pk, "role": ""}).status_code == 409
    page = text(client.post("/people", {"do": "invite", "email": "boss@example.net", "role": "operator"}))
    assert "/invitation/" in page
    invited = Invitation.objects.get()
    assert client.post("/people", {"do": "withdraw", "id": invited.pk}).status_code == 302
    assert "auditor-x" in text(client.get("/people?find=auditor"))
    assert "auditor-x" not in text(client.get("/people?find=operator"))
    for bad in ({"do": "role", "id": auditor.pk, "role": "king"}, {"do": "dance"}):
        assert client.post("/people", bad).status_code == 422


def test_an_admin_makes_webhooks(sales: Any, browse: Browse) -> None:
    client = member(browse)
    form = {"do": "create", "name": "crm", "url": "https://93.184.216.34/hook", "events": ["task.dead"]}
    made = text(client.post("/t/sales/webhooks", form))
    assert "whsec_" in made
    page = text(client.get("/t/sales/webhooks"))
    assert "whsec_" not in page
    hook = re.search(r'name="id" value="(\d+)"', page)
    assert hook
    for verb in ("test", "disable", "enable", "delete"):
        assert client.post("/t/sales/webhooks", {"do": verb, "id": hook[1]}).status_code == 302, verb
    assert client.post("/t/sales/webhooks", {"do": "test", "id": hook[1]}).status_code == 404
    assert client.post("/t/sales/webhooks", {"do": "create", "name": "", "url": "ftp://x"}).status_code == 422


def test_usage_adds_up_by_day_and_goes_into_a_sheet(sales: Any, browse: Browse, system: Caller) -> None:
    from django.utils import timezone

    from dispatch.models import Attempt, Lane, Pool

    lane = Lane.objects.filter(tenant__slug="sales").first()
    foreign = Lane.objects.get(tenant__slug="legal")
    assert lane
    for where, cost in ((lane, 2_500_000), (lane, 1_000_000), (foreign, 777_000_000)):
        Attempt.objects.create(
            task_id=1, token=1, attempt=1, pool_id=Pool.objects.get().pk, lane_id=where.pk, session_id=1, worker_id=1,
            worker_name="w", granted_at=timezone.now(), delivered_at=timezone.now(), ended_at=timezone.now(),
            outcome=0, counted=False, state=4, cost=cost, reason="",
        )  # fmt: skip
    client = member(browse, "viewer")
    assert "3.5 in all" in text(client.get("/t/sales/usage"))
    lines = text(client.get("/t/sales/usage.csv?days=1")).splitlines()
    assert lines[0] == "day,pool,class,user,attempts,succeeded,cost,slot_s"
    assert len(lines) == 2 and ",2,2,3.5," in lines[1]
    assert "777" not in text(client.get("/t/sales/usage"))


def test_a_member_finds_the_department_around_every_page(sales: Any, browse: Browse) -> None:
    client = member(browse, "viewer")
    assert client.get("/t/sales/tasks")["Location"] == "/tasks?tenant=sales"
    assert client.get("/t/sales/dead")["Location"] == "/dead?tenant=sales"
    page = text(client.get("/tasks?tenant=sales"))
    assert 'href="/t/sales/quota"' in page and 'href="/system"' not in page
    inside = text(browse("operator").get("/t/sales/"))
    assert "All departments" in inside
