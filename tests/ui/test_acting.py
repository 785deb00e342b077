"""Pages that act: groups of dead letters become a dry run, a dry run a job; every form acts once."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.core.states import State
from dispatch.models import AuditEvent, BulkJob, DeadGroup, Task
from dispatch.services import bulk, bulk_run

Browse = Callable[..., Client]
EVIL = ["<img src=x onerror=alert(1)>", "</script><b>", "{{7*7}}", "javascript:alert(1)", "'\"><svg onload=alert(1)>"]


@pytest.fixture
def letter(task: Callable[..., int]) -> Callable[..., int]:
    """One dead letter; its id."""

    def make(fingerprint: str = "f00d", message: str = "field 7 is required", **fields: Any) -> int:
        number = task(**fields)
        Task.objects.filter(pk=number).update(
            state=State.DEAD,
            queued_at=None,
            finished_at="2026-11-30T10:00Z",
            reason="max_attempts",
            attempts=3,
            fingerprint=fingerprint,
            error={"message": message, "type": "FieldRequired"},
        )
        return number

    return make


def once(text: str) -> str:
    """The token of the first form of a page."""
    found = re.search(r'name="once" value="([0-9a-f]{32})', text)
    assert found
    return found[1]


def freeze(client: Client, *groups: str, verb: str = "requeue") -> str:
    """Tick groups and press a button; where it leads."""
    token = once(client.get("/dead").content.decode())
    form = {"once": token, "group": groups, "verb": verb, "back": "/dead"}
    return str(client.post("/dead/act", form)["Location"])


def test_groups_are_listed_with_what_they_died_of(letter: Callable[..., int], browse: Browse) -> None:
    letter(), letter(tenant="legal"), letter("beef", "other")
    text = browse().get("/dead").content.decode()
    assert "3 tasks in 2 groups" in text and "FieldRequired" in text and "field 7 is required" in text
    assert 'data-id="f00d" data-count="2"' in text
    assert "By class and time of death" in text
    text = browse("auditor").get("/dead").content.decode()
    assert "older" in text and 'name="verb"' not in text and 'name="group"' not in text


def test_a_group_becomes_a_dry_run_and_a_job(letter: Callable[..., int], browse: Browse) -> None:
    numbers, other = [letter(), letter(tenant="legal")], letter("beef")
    client = browse()
    place = freeze(client, "f00d")
    text = client.get(place).content.decode()
    assert "Requeue 2 tasks" in text and "fingerprint:f00d" in text and "Nothing has been touched" in text
    assert Task.objects.filter(state=State.DEAD).count() == 3
    form = {"once": once(text), "rate_per_s": "", "canary": "", "stop_above": "20", "reason": "mended"}
    first = client.post(f"{place}/start", form, follow=True).content.decode()
    again = client.post(f"{place}/start", form, follow=True).content.decode()
    assert "Requeue 2 tasks: started" in first and "This was done already" in again
    job = BulkJob.objects.get()
    assert (job.state, job.stop_above, job.rate_per_s, job.canary) == ("running", 0.2, None, None)
    assert AuditEvent.objects.filter(action="requeue_bulk", refused=False).count() == 1
    bulk_run.advance()
    assert sorted(Task.objects.filter(state=State.QUEUED).values_list("id", flat=True)) == numbers
    assert Task.objects.get(pk=other).state == State.DEAD
    text = client.get(place).content.decode()
    assert "2 of 2 requeued" in text and "Take back what has not started" in text
    undone = client.post(f"{place}/undo", {"once": "u1"}, follow=True).content.decode()
    assert "2 tasks taken back" in undone
    assert Task.objects.filter(state=State.DEAD).count() == 3


def test_the_same_press_freezes_once(letter: Callable[..., int], browse: Browse) -> None:
    letter()
    client = browse()
    form = {"once": once(client.get("/dead").content.decode()), "group": ["f00d"], "verb": "requeue"}
    places = {client.post("/dead/act", form)["Location"] for _ in range(3)}
    assert len(places) == 1 and BulkJob.objects.count() == 1
    other = client.post("/dead/act", form | {"group": ["beef"]}, follow=True).content.decode()
    assert "sent before with other values" in other and BulkJob.objects.count() == 1
    assert "not complete" in client.post("/dead/act", {"verb": "requeue"}, follow=True).content.decode()


def test_what_cannot_be_undone_is_typed(letter: Callable[..., int], browse: Browse) -> None:
    number = letter()
    client = browse()
    place = freeze(client, "f00d", verb="discard")
    text = client.get(place).content.decode()
    assert "Type <b>1</b> to confirm" in text
    refused = client.post(f"{place}/start", {"once": "a", "reason": "junk", "typed": "2"}, follow=True)
    assert "typed: type 1 to confirm" in refused.content.decode()
    assert BulkJob.objects.get().state == "dry_run"
    client.post(f"{place}/start", {"once": "b", "reason": "junk", "typed": "1"})
    bulk_run.advance()
    assert Task.objects.get(pk=number).state == State.CANCELLED


def test_a_bad_pace_and_a_missing_reason_are_told(letter: Callable[..., int], browse: Browse) -> None:
    letter()
    client = browse()
    place = freeze(client, "f00d")
    text = client.post(
        f"{place}/start", {"once": "a", "rate_per_s": "fast", "reason": "x"}, follow=True
    ).content.decode()
    assert "rate_per_s: type a number" in text and 'value="fast"' in text and 'value="x"' in text
    text = client.post(f"{place}/start", {"once": "b", "rate_per_s": "1", "reason": " "}, follow=True).content.decode()
    assert "reason: " in text
    assert "not known" in client.get(f"{place}/plan?rate_per_s=x&canary=2").content.decode()
    assert "about 2 s, held back by the rate" in client.get(f"{place}/plan?rate_per_s=0.5").content.decode()


def test_a_job_is_paused_resumed_and_aborted(letter: Callable[..., int], browse: Browse) -> None:
    letter()
    client = browse()
    place = freeze(client, "f00d")
    client.post(f"{place}/start", {"once": "s", "reason": "mended", "rate_per_s": "0.001"})
    for verb, state in (("pause", "paused"), ("resume", "running"), ("abort", "aborted")):
        client.post(f"{place}/{verb}", {"once": verb})
        assert BulkJob.objects.get().state == state
    text = client.post(f"{place}/resume", {"once": "late"}, follow=True).content.decode()
    assert "The job is aborted" in text
    assert "aborted" in client.get("/bulk").content.decode()


def test_results_are_no_formulas(letter: Callable[..., int], browse: Browse) -> None:
    number = letter()
    client = browse()
    place = freeze(client, "f00d")
    bulk.command(bulk_caller(), int(place.rsplit("/", 1)[1]), "abort")
    from dispatch.models import BulkItem

    BulkItem.objects.update(state=2, reason="=HYPERLINK(1)")
    answer: Any = client.get(f"{place}/results.csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0] == "task,class,tenant,type,result,state,reason"
    assert lines[1] == f"{number},interactive,sales,index,skipped,dead,'=HYPERLINK(1)"
    assert "attachment" in answer["Content-Disposition"]


def bulk_caller() -> Any:
    from dispatch.services import access

    return access.system("test")


def test_a_decision_is_saved_from_the_page_of_a_group(letter: Callable[..., int], browse: Browse) -> None:
    letter()
    client = browse()
    text = client.get("/dead/f00d").content.decode()
    assert "Requeue 1 task…" in text and "Whom it hits" in text
    form = {"once": once(text), "status": "ignored", "ignore_above_total": "10", "assignee": "", "note": "known"}
    text = client.post("/dead/f00d/triage", form, follow=True).content.decode()
    assert "Saved the triage" in text and "ignored" in text
    group = DeadGroup.objects.get()
    assert (group.status, group.ignore_above_total, group.note) == ("ignored", 10, "known")
    assert "No group is open" in client.get("/dead").content.decode()
    assert 'data-id="f00d"' in client.get("/dead?show=settled").content.decode()
    assert client.get("/dead/nothing").status_code == 404
    bad = client.post("/dead/f00d/triage", {"once": "q", "status": "ignored", "ignore_above_total": "x"}, follow=True)
    assert "Type a number" in bad.content.decode()


def test_a_department_requeues_its_own_only(letter: Callable[..., int], browse: Browse) -> None:
    mine, foreign = letter(tenant="sales"), letter(tenant="legal")
    client = browse("", tenant="sales", inside="admin")
    assert "1 task in 1 group" in client.get("/dead").content.decode().replace("tasks in", "task in")
    job = bulk.create(bulk_caller(), "requeue", {"fingerprint": "f00d"}, "", dry_run=True)
    assert client.get(f"/bulk/{job['id']}").status_code == 404
    assert client.get(f"/bulk/{job['id']}/results.csv").status_code == 404
    client.post(f"/bulk/{job['id']}/start", {"once": "x", "reason": "mine"})
    assert Task.objects.filter(pk__in=[mine, foreign], state=State.DEAD).count() == 2


@pytest.mark.parametrize("evil", EVIL)
def test_texts_of_tasks_stay_texts(evil: str, letter: Callable[..., int], browse: Browse) -> None:
    letter("abc", evil)
    DeadGroup.objects.create(fingerprint="abc", note=evil, updated_by=evil)
    client = browse()
    place = freeze(client, "abc")
    client.post(f"{place}/abort", {"once": "x"})
    BulkJob.objects.update(reason=evil, note=evil, actor_name=evil, filter={"error": evil})
    for path in ("/dead", "/dead/abc", "/bulk", place):
        text = client.get(path).content.decode()
        assert "<img src=x" not in text and "<svg onload" not in text and "</script><b>" not in text, path
        assert ">49<" not in text, path


def test_a_waiting_task_is_raised_held_and_let_go(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    client = browse()
    text = client.get(f"/tasks/{number}").content.decode()
    assert "Raise once" in text and "Hold task" in text and "passes" in text and 'data-refresh="task.version"' in text
    for verb, state, priority in (("raise", 1, 100), ("hold", 3, 100), ("let-go", 1, 100)):
        client.post(f"/tasks/{number}/edit/{verb}", {"once": verb, "reason": "asked for"})
        found = Task.objects.get(pk=number)
        assert (found.state, found.priority) == (state, priority)
    assert AuditEvent.objects.filter(action="patch_task", reason="asked for").count() == 3
    assert "no such command" in client.post(f"/tasks/{number}/edit/x", {"once": "x"}, follow=True).content.decode()
    other = browse("", tenant="legal", inside="admin")
    other.post(f"/tasks/{number}/edit/raise", {"once": "y"})
    assert AuditEvent.objects.filter(action="patch_task", refused=False).count() == 3


def test_ticked_tasks_and_all_matching_are_frozen(task: Callable[..., int], browse: Browse) -> None:
    numbers = [task(type="resize") for _ in range(3)] + [task(type="index")]
    client = browse()
    text = client.get("/tasks?q=type%3Aresize").content.decode()
    form = {"once": once(text), "q": "type:resize", "back": "/tasks?q=type%3Aresize", "verb": "cancel"}
    place = client.post("/bulk/new", form | {"task": numbers[:2]})["Location"]
    assert BulkJob.objects.get().matched == 2
    text = client.get(place).content.decode()
    assert "Cancel 2 tasks" in text and "Type <b>2</b> to confirm" in text
    task(type="resize")
    place = client.post("/bulk/new", form | {"once": "w", "whole": "1"})["Location"]
    assert BulkJob.objects.latest("id").matched == 4
    late = task(type="resize")
    client.post(f"{place}/start", {"once": "s", "reason": "wrong", "typed": "4"})
    bulk_run.advance()
    assert Task.objects.filter(state=State.CANCELLED).count() == 4
    assert Task.objects.get(pk=late).state == State.QUEUED and Task.objects.get(pk=numbers[3]).state == State.QUEUED
    assert BulkJob.objects.latest("id").new == 1
    for bad in ({"q": "", "whole": "1"}, {"q": "shoe:9", "whole": "1"}, {"q": "type:resize"}):
        answer = client.post("/bulk/new", form | {"once": str(bad)[:60]} | bad, follow=True).content.decode()
        assert "must not be empty" in answer or "is not a filter" in answer or "Tick at least one" in answer
    assert BulkJob.objects.count() == 2


def test_the_list_is_counted_saved_and_downloaded(task: Callable[..., int], browse: Browse) -> None:
    number = task(type="resize")
    task()
    client = browse()
    assert client.get("/tasks/count?q=type%3Aresize").content.decode() == "1 matches"
    assert client.get("/tasks/count?q=shoe%3A9").content == b""
    answer: Any = client.get("/tasks/download.csv?q=type%3Aresize")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("id,state,type,class,tenant") and lines[1].startswith(f"{number},queued,resize")
    assert client.get("/tasks/download.csv?q=shoe%3A9").status_code == 422
    form = {"once": "v", "q": "type:resize", "name": "<b>big</b>", "audience": "everyone"}
    text = client.post("/tasks/views", form, follow=True).content.decode()
    assert "&lt;b&gt;big&lt;/b&gt;" in text and "<b>big</b>" not in text
    view = re.search(r"/tasks/views/(\d+)/delete", text)
    assert view
    client.post(f"/tasks/views/{view[1]}/delete", {"once": "d"})
    assert "/tasks/views/1" not in client.get("/tasks").content.decode()


def test_an_empty_list_says_what_is_in_place_and_what_to_type(pool: None, browse: Browse) -> None:
    text = browse().get("/tasks").content.decode()
    assert "No tasks yet" in text and "1 class, 2 tenants" in text and "No worker yet" in text
    assert "evenflow submit --tenant legal --class interactive" in text


@pytest.mark.parametrize("inside", ["admin", "member", "viewer"])
def test_people_of_a_department_see_the_acting_pages(inside: str, letter: Callable[..., int], browse: Browse) -> None:
    number = letter()
    client = browse("", tenant="sales", inside=inside)
    for path in (
        "/dead",
        "/dead?view=ages",
        "/dead/f00d",
        "/bulk",
        "/alerts",
        "/tasks?q=state%3Adead",
        f"/tasks/{number}",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
    assert (b"Requeue 1 task" in client.get("/dead/f00d").content) == (inside == "admin")
