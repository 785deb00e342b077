"""Every page answers everyone it should, and nobody else."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.core.states import State
from dispatch.models import JournalEntry, Task

PAGES = [
    "/",
    "/queues",
    "/tasks",
    "/workers",
    "/dead",
    "/bulk",
    "/alerts",
    "/alerts/rules",
    "/capabilities",
    "/fairness",
    "/audit",
    "/system",
    "/account/password",
]
Browse = Callable[..., Client]


@pytest.mark.parametrize("path", PAGES)
def test_a_signed_out_person_is_sent_to_the_sign_in(path: str, db: None) -> None:
    answer = Client().get(path)
    assert (answer.status_code, answer["Location"]) == (302, f"/login?next={path}")


@pytest.mark.parametrize("role", ["operator", "auditor"])
@pytest.mark.parametrize("path", PAGES)
def test_operators_and_auditors_see_every_page(path: str, role: str, pool: None, browse: Browse) -> None:
    answer = browse(role).get(path)
    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/", "/queues", "/tasks", "/workers", "/dead", "/bulk", "/capabilities", "/fairness", "/audit", "/system"]
)
def test_a_person_without_any_role_sees_nothing(path: str, pool: None, browse: Browse) -> None:
    answer = browse("").get(path)
    assert answer.status_code == 403
    assert "interactive" not in answer.content.decode()


def test_no_page_carries_inline_script_or_style(pool: None, task: Callable[..., int], browse: Browse) -> None:
    client, number = browse(), task()
    for path in [*PAGES, f"/tasks/{number}"]:
        text = client.get(path).content.decode()
        assert "<style" not in text and " style=" not in text and "<script>" not in text and " onclick" not in text, (
            path
        )


def test_only_those_who_may_operate_get_the_commands(pool: None, browse: Browse) -> None:
    assert 'action="/policy/class/interactive/weight"' in browse().get("/").content.decode()
    assert 'action="/policy/' not in browse("auditor").get("/").content.decode()


def test_the_overview_shows_what_is_queued(task: Callable[..., int], browse: Browse) -> None:
    task()
    task(tenant="legal")
    text = browse().get("/").content.decode()
    assert '<span data-k="t.queued">2</span>' in text
    assert '<span class="val" data-k="c.interactive.queued">2 queued</span>' in text
    assert "Nothing is dispatched: the dispatcher is silent" in text


def test_text_of_tasks_is_never_markup(task: Callable[..., int], browse: Browse) -> None:
    number = task(payload={"x": "<script>alert(1)</script>"}, key="<b>k</b>")
    text = browse().get(f"/tasks/{number}").content.decode()
    assert "<script>alert" not in text and "<b>k</b>" not in text and "&lt;script&gt;alert" in text


def test_the_address_of_a_form_opened_by_hand_is_explained(pool: None, browse: Browse) -> None:
    answer = browse().get("/bulk/new")
    assert answer.status_code == 405 and answer["Allow"] == "POST" and b"Nothing was done" in answer.content
    assert Client().get("/api/v1/claims")["Content-Type"].startswith("application/problem+json")


def test_a_task_that_does_not_exist_is_not_found(pool: None, browse: Browse) -> None:
    assert browse().get("/tasks/99999").status_code == 404
    assert browse("auditor").get("/tasks/9223372036854775808").status_code == 404


def test_a_member_sees_the_tasks_of_the_own_tenant_only(task: Callable[..., int], browse: Browse) -> None:
    ours, theirs = task(tenant="sales"), task(tenant="legal")
    client = browse("", tenant="sales")
    assert client.get(f"/tasks/{ours}").status_code == 200
    assert client.get(f"/tasks/{theirs}").status_code == 404
    assert "· legal" not in client.get("/tasks").content.decode()
    assert "Not shown to your role" in client.get(f"/tasks/{ours}").content.decode()


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("state:queued class:interactive", 200, "index"),
        ("state:nonsense", 200, "must be one or more of"),
        ("shoe:9", 200, "is no search word"),
        ("class:nope", 200, "there is no such class"),
        ("age>1h", 200, "No task matches"),
        ("tenant:legal", 200, "No task matches"),
    ],
)
def test_the_search_line_filters_or_says_why_not(
    query: str, status: int, words: str, task: Callable[..., int], browse: Browse
) -> None:
    task()
    answer = browse().get("/tasks", {"q": query})
    assert answer.status_code == status
    assert words in answer.content.decode()


def test_a_number_leads_to_the_task(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    answer: Any = browse().get("/tasks", {"q": f"#{number}"})
    assert answer["Location"] == f"/tasks/{number}"


def test_a_bad_cursor_is_told_not_raised(pool: None, browse: Browse) -> None:
    client = browse()
    assert client.get("/tasks?after=x").status_code == 200
    assert client.get("/bulk?after=x").status_code == 422
    assert client.get("/audit?after=x").status_code == 422


def test_a_waiting_task_says_why(task: Callable[..., int], browse: Browse) -> None:
    number = task(capabilities=["ocr"])
    text = browse().get(f"/tasks/{number}").content.decode()
    assert "Why not running" in text
    assert '<code class="tag">no_capable_worker</code>' in text and "No live worker offers" in text
    Task.objects.update(state=State.DEAD, reason="max_attempts", finished_at="2026-01-01T00Z")
    text = browse("auditor").get(f"/tasks/{number}").content.decode()
    assert "Why not running" not in text and "Requeue task" not in text and "Cancel task" not in text


def test_the_journal_of_a_task_is_shown_to_those_who_see_payloads(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    JournalEntry.objects.create(task_id=number, token=1, data={"page": "<i>31</i>"}, append=True)
    assert "&lt;i&gt;31&lt;/i&gt;" in browse("auditor").get(f"/tasks/{number}").content.decode()
    assert "31&lt;/i&gt;" not in browse("", tenant="sales").get(f"/tasks/{number}").content.decode()


def test_our_own_processes_are_no_recent_commands(pool: None, browse: Browse) -> None:
    client = browse()
    client.post("/policy/tenant/sales/weight", {"weight": "3", "version": "1", "reason": "quarter end"})
    text = client.get("/").content.decode()
    assert "quarter end" in text and "create class interactive" not in text
    assert "create class" in client.get("/audit").content.decode()
