"""One queue's page: its numbers, what starts next and when, who uses it; pause and resume with a reason."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from dispatch.core.states import State
from dispatch.models import Task, Tenant, WorkClass
from dispatch.services import pause as pausing
from dispatch.services import policy, queue
from dispatch.services.messages import Caller

Browse = Callable[..., Client]
Make = Callable[..., int]


def test_queues_take_turns_by_their_tenants_weight(task: Make, system: Caller) -> None:
    Tenant.objects.filter(slug="sales").update(weight=2)
    first = [task(tenant="sales") for _ in range(4)]
    other = [task(tenant="legal") for _ in range(2)]
    found = queue.queue(system, "interactive")
    assert [item["id"] for item in found["next"]] == [first[0], first[1], other[0], first[2], first[3], other[1]]
    assert [item["place"] for item in found["next"]] == [1, 2, 3, 4, 5, 6]
    assert found["next"][0]["starts_in_s"] is None, "nothing started lately, so no time is told"
    assert [item["id"] for item in queue.queue(system, "interactive", "legal")["next"]] == other


def test_a_more_urgent_task_of_a_lane_comes_first(task: Make, system: Caller) -> None:
    plain, urgent = task(), task(priority=5)
    assert [item["id"] for item in queue.queue(system, "interactive")["next"]] == [urgent, plain]


def test_a_stopped_queue_has_nobody_in_line(task: Make, system: Caller) -> None:
    task()
    policy.patch(system, "class", "interactive", 1, {"max": 0}, "no more")
    found = queue.queue(system, "interactive")
    assert found["next"] == [] and found["limits"] == ["class limit 0 of 0"]
    assert found["count"]["limited"] == 1


def test_the_page_says_it_all_and_stays_live(task: Make, browse: Browse) -> None:
    number = task(user="ann")
    client = browse()
    page = client.get("/queues/interactive")
    text = page.content.decode()
    assert page.status_code == 200 and f'href="/tasks/{number}"' in text and "interactive waits" in text
    assert 'data-series="/series.json?span=15m&amp;class=interactive"' in text
    cells = client.get("/live/queue:interactive.json").json()["changes"]
    assert (cells["u.queued"], cells["next"], cells["y.0.user"]) == ("1", [str(number)], "ann")
    assert client.get("/live/queue:interactive/sales.json").json()["changes"]["u.queued"] == "1"
    assert client.get("/queues/nothing").status_code == 404
    assert client.get("/queues/interactive/nobody").status_code == 404


def test_a_member_sees_only_its_own_part(task: Make, browse: Browse) -> None:
    task(tenant="sales", user="ann")
    own = task(tenant="legal", user="bob")
    member = browse("", tenant="legal")
    text = member.get("/queues/interactive").content.decode()
    assert f"/tasks/{own}" in text and "ann" not in text and "sales" not in text
    assert member.get("/queues/interactive/sales").status_code == 404
    assert 'action="/pause/' not in text


def test_pause_and_resume_need_a_reason(task: Make, browse: Browse) -> None:
    task()
    client = browse()
    client.post("/pause/class/interactive", {"reason": " ", "minutes": ""})
    assert not WorkClass.objects.get().paused
    client.post("/pause/class/interactive", {"reason": "provider is down", "minutes": "15"})
    row = WorkClass.objects.get()
    assert row.paused and row.paused_until is not None and row.pause_reason == "provider is down"
    assert "interactive is paused until its time is over" in client.get("/queues/interactive").content.decode()
    client.post("/resume/class/interactive", {"reason": "it is back"})
    assert not WorkClass.objects.get().paused


@pytest.mark.parametrize(("typed", "paused"), [("pause all", True), ("pause", False), ("", False)])
def test_everything_is_paused_only_by_its_typed_words(typed: str, paused: bool, task: Make, browse: Browse) -> None:
    task()
    client = browse()
    client.post("/pause/all", {"reason": "fire", "minutes": "", "confirm": typed})
    limited = client.get("/live/queue:interactive.json").json()["changes"]["u.limited"]
    assert limited.startswith("1 held" if paused else "none")
    told = client.get("/live/system.json").json()["changes"]
    assert [
        value for value in told.values() if str(value).startswith("Nothing new starts until") and ": fire" in str(value)
    ] or not paused


def test_an_auditor_cannot_pause(task: Make, browse: Browse) -> None:
    auditor = browse("auditor")
    for path in ("/pause/class/interactive", "/pause/all"):
        auditor.post(path, {"reason": "x", "minutes": "", "confirm": "pause all"})
    assert not WorkClass.objects.get().paused


def answers(client: Client, query: str) -> Any:
    return client.get(f"/series.json?{query}")


def test_the_charts_data_keeps_to_the_rights(task: Make, browse: Browse) -> None:
    assert answers(browse(), "span=15m&class=interactive").json()["step_s"] == 10
    assert answers(browse("auditor"), "span=9y").status_code == 422
    member = browse("", tenant="legal")
    assert answers(member, "tenant=legal").status_code == 200
    assert answers(member, "tenant=sales").status_code == 404


def test_only_what_may_start_is_old(task: Make, system: Caller, browse: Browse) -> None:
    """Schedule, back-off, pause and quota are told apart and never frighten."""
    now = timezone.now()
    task(run_at=now + timedelta(hours=6))
    Task.objects.filter(pk=task()).update(state=State.SCHEDULED, run_at=now + timedelta(hours=1), attempts=1)
    policy.create(system, "tenant", "paused", {})
    policy.create(system, "tenant", "full", {"max": 0})
    stopped = [task(tenant="paused"), task(tenant="full")]
    pausing.pause(system, "tenant", "paused", "month end")
    startable = task()
    Task.objects.filter(pk__in=stopped).update(queued_at=now - timedelta(hours=2), enqueued_at=now - timedelta(hours=2))
    Task.objects.filter(pk=startable).update(
        queued_at=Now() - timedelta(seconds=30), created_at=now - timedelta(hours=3)
    )
    cells = browse().get("/live/queue:interactive.json").json()["changes"]
    number, unit = cells["u.oldest"].split()
    assert 10 < int(number) <= 30 and unit == "s", "of the test's transaction, so less what it took until here"
    assert cells["u.oldest.tone"] == ""
    assert cells["u.limited"] == "2 held by limits of their own"
    assert cells["u.rest"] == "2 scheduled, 0 held"
    assert "stopped by: tenant limit 0 of 0, tenant stopped" in cells["answer.cause"]
    assert [cells[f"x.{number}.who"] for number in cells["next"]] == ["sales"]
