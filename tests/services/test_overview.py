"""The numbers of the live page against a small world whose numbers can be counted by hand."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dispatch.errors import Forbidden, Invalid, NotFound
from dispatch.models import Pool, Task, Tenant, Tool, WorkClass
from dispatch.services import overview, policy
from dispatch.services.requeue import requeue
from tests.plans import plan_of
from tests.services.world import ROOT, bury, key, lease, make_world, person, put, worker_session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def by_slug(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["slug"]: row for row in rows}


def wait_since(task_id: int, seconds: float) -> None:
    Task.objects.filter(pk=task_id).update(queued_at=timezone.now() - timedelta(seconds=seconds))


def test_counts_ages_and_shares() -> None:
    session = worker_session("w1", slots=2)
    lease(put().id, session)
    lease(put(work_class="background").id, session)
    for seconds in (5, 40):
        wait_since(put(work_class="interactive", tenant="beta").id, seconds)
    put(run_at=timezone.now() + timedelta(hours=1))
    dead = put().id
    bury(dead, error={"message": "boom"}, fingerprint="abc")
    found = overview.overview(ROOT)
    classes = by_slug(found["classes"])
    assert [row["slug"] for row in found["classes"]] == ["critical", "interactive", "background"]
    assert (classes["critical"]["running"], classes["critical"]["scheduled"]) == (1, 1)
    assert classes["interactive"]["queued"] == 2
    assert classes["interactive"]["oldest_age_s"] == pytest.approx(40, abs=2)
    assert classes["critical"]["oldest_age_s"] is None
    assert classes["critical"]["arrived_per_s"] == pytest.approx(3 / 60)
    assert classes["critical"]["dispatched_per_s"] == pytest.approx(1 / 60)
    assert sum(row["share_target"] for row in found["classes"]) == pytest.approx(1)
    assert classes["interactive"]["share_target"] == pytest.approx(0.375)  # 2 slots: 1 : 0.75 : 0.25
    assert found["totals"]["queued"] == 2
    assert found["totals"]["running"] == 2
    assert (found["totals"]["slots"], found["totals"]["free"]) == (2, 0)
    assert found["totals"]["oldest"] == {"class": "interactive", "tenant": "beta"}
    assert found["dead"]["total"] == found["dead"]["new_1h"] == 1
    assert found["dead"]["items"][0]["id"] == dead
    assert [(cell["class"], cell["tenant"]) for cell in found["grid"] if cell["queued"]] == [("interactive", "beta")]
    (worker,) = found["workers"]
    assert (worker["name"], worker["state"], worker["running"], len(worker["leases"])) == ("w1", "live", 2, 2)
    requeue(key("read", "operate"), dead, "again")
    after = overview.overview(ROOT)
    assert after["dead"]["total"] == 0
    assert after["commands"][0]["text"].startswith(f"requeue task {dead}")


def _stop(what: str) -> None:
    match what:
        case "tenant paused":
            Tenant.objects.filter(slug="alpha").update(paused=True)
        case "class paused":
            WorkClass.objects.filter(slug="critical").update(paused=True)
        case "pool paused":
            Pool.objects.filter(slug="default").update(paused=True)
        case "tool cooling":
            Tool.objects.filter(slug="crm").update(cooldown_until=timezone.now() + timedelta(hours=1))
        case "tool max":
            Tool.objects.filter(slug="crm").update(max=0)
        case "tenant max":
            Tenant.objects.filter(slug="alpha").update(max=1)
        case "tenant user_max":
            Tenant.objects.filter(slug="alpha").update(user_max=1)
        case "class max":
            WorkClass.objects.filter(slug="critical").update(max=1)


@pytest.mark.parametrize(
    "what",
    [
        "tenant paused",
        "class paused",
        "pool paused",
        "tool cooling",
        "tool max",
        "tenant max",
        "tenant user_max",
        "class max",
    ],
)
def test_a_lane_stopped_by_its_own_limit_does_not_starve(what: str) -> None:
    lease(put(tools=("crm",)).id)
    wait_since(put(tools=("crm",)).id, 300)
    before = by_slug(overview.overview(ROOT)["classes"])["critical"]
    assert before["oldest_age_s"] == pytest.approx(300, abs=2)
    _stop(what)
    row = by_slug(overview.overview(ROOT)["classes"])["critical"]
    assert row["oldest_age_s"] is None
    assert row["limited_oldest_age_s"] == pytest.approx(300, abs=2)
    assert (row["queued"], row["limited"]) == (1, 1)
    Tenant.objects.update(paused=False, max=None, user_max=None)
    WorkClass.objects.update(paused=False, max=None)
    Pool.objects.update(paused=False)
    Tool.objects.update(cooldown_until=None, max=None)
    row = by_slug(overview.overview(ROOT)["classes"])["critical"]
    assert row["oldest_age_s"] == pytest.approx(0, abs=2)  # its age begins where the stop ended


def test_resuming_by_an_edit_starts_the_age_anew() -> None:
    wait_since(put().id, 300)
    paused = policy.patch(ROOT, "tenant", "alpha", 1, {"paused": True}, "audit week")
    policy.patch(ROOT, "tenant", "alpha", paused["version"], {"paused": False}, "over")
    assert by_slug(overview.overview(ROOT)["classes"])["critical"]["oldest_age_s"] == pytest.approx(0, abs=2)


def test_a_department_sees_no_number_of_another() -> None:
    session = worker_session()
    lease(put(tenant="beta").id, session)
    put(tenant="beta", work_class="background")
    bury(put(tenant="beta").id)
    for caller in (key("read", tenant="alpha"), person(alpha="viewer")):
        found = overview.overview(caller)
        assert [row["slug"] for row in found["tenants"]] == ["alpha"]
        assert found["grid"] == found["workers"] == found["dead"]["items"] == []
        assert not any("beta" in command["text"] for command in found["commands"])
        assert found["totals"]["queued"] == found["totals"]["running"] == found["dead"]["total"] == 0
        assert not any(row["queued"] or row["running"] or row["arrived_per_s"] for row in found["classes"])
        numbers = overview.stats(caller)
        assert numbers["workers"] == {}
        assert numbers["dead"]["groups"] == numbers["slots_wanted"] == []


def test_who_may_read_and_which_pool() -> None:
    for caller in (key("submit", "work"), person()):
        with pytest.raises(Forbidden):
            overview.overview(caller)
    for slug in ("nope", "a\0b", "OTHER"):
        with pytest.raises(NotFound):
            overview.overview(ROOT, slug)
    bound = key("read", pool="other")
    told = []
    for slug in ("default", "nope"):
        with pytest.raises(NotFound) as refusal:
            overview.overview(bound, slug)
        told.append(str(refusal.value))
    assert told[0] == told[1], "another pool answers as a missing one"
    assert overview.overview(key("read", pool="other"))["pool"] == "other"


def test_stats_of_a_window() -> None:
    session = worker_session()
    lease(put(capabilities=("gpu",)).id, session)
    put(capabilities=("gpu",))
    found = overview.stats(ROOT, window_s=60)
    critical = by_slug(found["classes"])["critical"]
    assert critical["dispatched"] == 1
    assert critical["wait_p50_s"] == pytest.approx(0, abs=2)
    assert critical["share_achieved"] == 1.0
    assert critical["slo"].items() >= {"queue_s": None, "queue_met": None, "done_s": None}.items()
    assert found["slots_wanted"] == [{"pool": "default", "capabilities": ["gpu"], "slots": 2}]
    assert found["workers"] == {"total": 1, "live": 1, "draining": 0, "slots": 4, "running": 1, "free": 3}
    for window in (0, -1, 1e9, float("nan"), "60", True):
        with pytest.raises(Invalid):
            overview.stats(ROOT, window_s=window)  # type: ignore[arg-type]


def test_arrivals_are_counted_from_the_start_of_the_window_on() -> None:
    made = [put().id for _ in range(40)]
    Task.objects.filter(pk__in=made[:25]).update(created_at=timezone.now() - timedelta(minutes=5))
    Task.objects.filter(pk__in=[*made[3:9], made[30]]).delete()
    rate = by_slug(overview.overview(ROOT)["classes"])["critical"]["arrived_per_s"]
    assert rate * 60 == pytest.approx(14)


def test_the_cost_does_not_grow_with_the_backlog() -> None:
    put()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO task (pool_id, work_class_id, tenant_id, lane_id, payload, state, created_at, queued_at)"
            " SELECT pool_id, work_class_id, tenant_id, lane_id, '{}', 1, at, at"
            " FROM task, generate_series(1, 20000), (SELECT now() - interval '1 hour' AS at) x"
        )
        cursor.execute("ANALYZE task")
    for name in ("numbers_lanes", "numbers_arrivals", "numbers_dead_newest", "numbers_dead_lately"):
        params = {"pool_id": Pool.objects.get(slug="default").pk, "tenants": None, "window_s": 60.0, "limit": 20}
        plan = plan_of(name, params)
        assert "Seq Scan on task" not in plan, f"{name}\n{plan}"
