"""Cost budgets: kept by the dispatcher, told by explain, alerted, topped up, overridden, and ended by themselves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.errors import Conflict, Forbidden, Invalid, NotFound, RateLimited, VersionConflict
from dispatch.models import AuditEvent, Budget, Lease, Settlement
from dispatch.services import budget_watch, budgets, policy, stats
from dispatch.services.explain import why
from tests import fleet
from tests.services.leader import Leader, park
from tests.services.leader import forget as forget_lanes
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db
HOUR = {"window": "hour"}


@pytest.fixture(autouse=True)
def world() -> None:
    forget_lanes()
    make_world()


def make(slug: str = "daily", tenant: str = "alpha", **fields: Any) -> dict[str, Any]:
    return budgets.create(ROOT, tenant, slug, {"limit": 10, "window": "day"} | fields)


def state(slug: str = "daily") -> dict[str, Any]:
    return dict(budgets.get(ROOT, "alpha", slug)["state"])


def left(slug: str = "daily") -> float:
    return float(state(slug)["left"])


def leases(tenant: str = "alpha") -> int:
    return Lease.objects.filter(lane__tenant__slug=tenant).count()


def codes(task: int) -> list[str]:
    return [blocker["code"] for blocker in why(ROOT, task)["blockers"]]


def open_alerts() -> dict[str, str]:
    return dict(fleet.sql("SELECT rule, subject FROM alert WHERE resolved_at IS NULL"))


def finish_all(session: int, **fields: Any) -> None:
    answer = fleet.ask(session)
    for lease in answer.leases:
        fleet.ended("complete", lease.task_id, lease.token, **fields)


# The ledger


def test_tasks_start_until_the_budget_is_reserved_and_go_on_when_less_was_spent() -> None:
    """Ten units, tasks of 3: three start. Two end for 1 each: 10 - 2 - 3 = 5 are left, one more starts."""
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    park(session)
    make()
    tasks = fleet.put(9, cost=3)
    fleet.put(2, tenant="beta", cost=3)
    leader.run()
    assert (leases(), leases("beta"), left()) == (3, 2, 1)
    assert state()["reserved"] == 9
    (blocker,) = why(ROOT, tasks[-1])["blockers"][:1]
    assert (blocker["code"], blocker["kind"], blocker["subject"]) == ("budget_spent", "budget", "daily")
    assert (blocker["value"], blocker["limit"]) == (9, 10)
    assert blocker["text"].startswith("The budget daily is used up until 20")
    assert blocker["text"].endswith(" UTC: 9 of 10 are spent or reserved, too much for this task.")
    assert state()["waiting_since"] is not None
    held = [lease for lease in fleet.ask(session).leases if lease.tenant == "alpha"]
    for lease in held[:2]:
        fleet.ended("complete", lease.task_id, lease.token, cost=1)
    assert Settlement.objects.count() == 2
    assert state()["reserved"] == 3 + 2, "what ended counts before anybody has settled it"
    park(session)
    leader.run()
    now = state()
    assert leases() > 1, "one more than the one that still runs"
    assert (now["settled"], now["left"] >= 0) == (2, True)


def test_a_new_leader_goes_on_from_the_same_ledger() -> None:
    session = fleet.join("w1", slots=20).session_id
    park(session)
    make()
    fleet.put(9, cost=4)
    Leader().run()
    finish_all(session, cost=4)
    park(session)
    Leader().run()
    assert (leases(), state()["settled"], left()) == (0, 8, 2)


def test_a_new_window_begins_with_nothing_settled() -> None:
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    park(session)
    make(**HOUR)
    fleet.put(9, cost=5)
    leader.run()
    finish_all(session, cost=5)
    park(session)
    leader.run()
    assert (left(), leases()) == (0, 0)
    fleet.sql("UPDATE budget_spend SET window_start = window_start - interval '1 hour'")
    assert (left(), state()["waiting_since"]) == (10, None)
    leader.run()
    assert leases() == 2
    windows = budgets.get(ROOT, "alpha", "daily")["windows"]
    assert [window["settled"] for window in windows][-1] == 10


def test_class_and_user_budgets_count_their_own_only_and_others_units_not_at_all() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=20).session_id)
    make("critical", **{"class": "critical", "limit": 2})
    make("ann", user="ann", limit=1)
    make("tokens", unit="tokens", limit=0)
    fleet.put(4, cost=1)
    fleet.put(4, cost=1, work_class="background", user="ann")
    fleet.put(4, cost=1, work_class="background")
    leader.run()
    assert leases() == 2 + 1 + 4
    policy.patch(ROOT, "pool", "default", 1, {"cost_unit": "tokens"}, "x")
    fleet.put(1, cost=1, work_class="interactive")
    leader.run()
    assert leases() == 7


def test_in_other_units_time_is_no_cost() -> None:
    policy.patch(ROOT, "pool", "default", 1, {"cost_unit": "USD"}, "x")
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    park(session)
    make()
    fleet.put(2, cost=3)
    leader.run()
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '1 hour', expires_at = now() + interval '1 hour'")
    leader.memory.overruns_at = 0
    leader.run()
    assert state()["reserved"] == 6
    for task, token in fleet.sql("SELECT task_id, token FROM lease"):
        fleet.ended("complete", task, token)
    assert [row.actual for row in Settlement.objects.all()] == [3_000_000, 3_000_000], "as charged, not as long"


def test_overruns_are_reserved_while_they_run() -> None:
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    make()
    fleet.hold(session, *fleet.put(1, cost=1))
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '9 s'")
    leader.memory.overruns_at = 0
    leader.run()
    assert state()["reserved"] == pytest.approx(9, abs=0.5)


def test_the_tenants_own_cost_budget_is_the_budget_default() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=20).session_id)
    row = policy.patch(ROOT, "tenant", "alpha", 1, {"cost_budget": 6, "budget_window_s": 3600}, "x")
    found = budgets.get(ROOT, "alpha", "default")
    assert (found["limit"], found["window_s"], found["follows_tenant"]) == (6, 3600, True)
    fleet.put(9, cost=3)
    leader.run()
    assert leases() == 2
    with pytest.raises(Invalid, match="edit its cost_budget"):
        budgets.patch(ROOT, "alpha", "default", found["version"], {"limit": 9}, "x")
    assert budgets.patch(ROOT, "alpha", "default", found["version"], {"on_breach": "stop"}, "x")["on_breach"] == "stop"
    for call in (lambda: budgets.delete(ROOT, "alpha", "default"), lambda: make("default")):
        with pytest.raises(Conflict):
            call()
    row = policy.patch(ROOT, "tenant", "alpha", row["version"], {"cost_budget": 9}, "x")
    leader.run()
    assert leases() == 3
    policy.patch(ROOT, "tenant", "alpha", row["version"], {"cost_budget": None}, "x")
    with pytest.raises(NotFound):
        budgets.get(ROOT, "alpha", "default")
    leader.run()
    assert leases() == 9


# More for a while


def test_top_ups_and_overrides_give_more_and_end_by_themselves() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=30).session_id)
    make()
    task = fleet.put(30, cost=5)[-1]
    leader.run()
    assert leases() == 2
    topped = budgets.top_up(ROOT, "alpha", "daily", 10, "release week")
    assert (topped["state"]["limit"], topped["state"]["waiting_since"]) == (20, None)
    assert topped["extras"][0]["until"] == topped["state"]["window_end"]
    leader.run()
    assert leases() == 4
    until = datetime.now(UTC) + timedelta(hours=1)
    over = budgets.override(ROOT, "alpha", "daily", 40, until, "board")
    assert over["state"]["limit"] == 50, "a top-up adds to what stands in the budget's place"
    leader.run()
    assert leases() == 10
    assert "budget_spent" in codes(task)
    free = budgets.override(ROOT, "alpha", "daily", None, until, "no limit tonight")
    assert (free["state"]["limit"], free["state"]["left"]) == (None, None)
    leader.run()
    assert leases() == 30
    fleet.sql("UPDATE budget_extra SET until_at = now() - interval '1 s'")
    assert (state()["limit"], left()) == (10, -140)
    assert budgets.get(ROOT, "alpha", "daily")["extras"] == []
    again = budgets.top_up(ROOT, "alpha", "daily", 1, "x")["extras"][0]["id"]
    assert budgets.end_extra(ROOT, "alpha", "daily", again)["extras"] == []
    with pytest.raises(NotFound):
        budgets.end_extra(ROOT, "alpha", "daily", again)
    actions = [event.action for event in AuditEvent.objects.filter(target="alpha/daily").order_by("id")]
    assert actions == [
        *("create_budget", "top_up_budget", "override_budget", "override_budget", "top_up_budget", "end_budget_extra")
    ]


# Alerts and breaches


def test_alerts_at_eighty_percent_and_when_it_is_spent_and_resolves_them() -> None:
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    park(session)
    make()
    fleet.put(1, cost=7)
    leader.run()
    assert (budget_watch.watch(), open_alerts()) == (0, {})
    fleet.put(1, cost=1)
    leader.run()
    budget_watch.watch()
    assert open_alerts() == {"budget_low": "budget:alpha/daily"}
    fleet.put(1, cost=5)
    leader.run()
    assert budget_watch.watch() == 1
    assert open_alerts() == {"budget_spent": "budget:alpha/daily"}
    ((text, tenant),) = fleet.sql("SELECT text, tenant_id IS NOT NULL FROM alert WHERE resolved_at IS NULL")
    assert tenant
    assert text.startswith("The budget alpha/daily is used up until ")
    assert text.endswith("8 of 10 are spent or reserved.")
    budgets.top_up(ROOT, "alpha", "daily", 30, "x")
    leader.run()
    budget_watch.watch()
    assert open_alerts() == {}


def test_a_budget_that_degrades_lets_the_work_go_on_in_another_class() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=20).session_id)
    make(on_breach="degrade", degrade_to="background", **{"class": "critical"})
    tasks = fleet.put(5, cost=5)
    leader.run()
    budget_watch.watch()
    leader.run()
    assert leases() == 5
    classes = dict(
        fleet.sql("SELECT c.slug, count(*) FROM task t JOIN work_class c ON c.id = t.work_class_id GROUP BY 1")
    )
    assert classes == {"critical": 2, "background": 3}
    assert state()["reserved"] == 10, "what was degraded is not counted"
    assert codes(tasks[-1]) == []
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.after) == ("degrade_budget", {"moved": 3})
    fleet.invariants()


def test_a_budget_that_stops_asks_for_its_tasks_back_and_takes_no_new_ones() -> None:
    leader, session = Leader(), fleet.join("w1", slots=20).session_id
    park(session)
    make(on_breach="stop")
    fleet.put(3, cost=5)
    leader.run()
    held = fleet.ask(session).leases
    park(session)
    leader.run()
    budget_watch.watch()
    beaten = fleet.beat(session, *((lease.task_id, lease.token) for lease in held))
    assert {one.directive for one in beaten} == {"yield"}
    with pytest.raises(RateLimited, match="The budget daily of the tenant alpha is used up until") as refusal:
        fleet.put(1)
    assert 0 < (refusal.value.retry_after_s or 0) <= 86400
    fleet.put(1, tenant="beta")
    budgets.top_up(ROOT, "alpha", "daily", 50, "x")
    fleet.put(1)


def test_waits_for_a_budget_count_as_limited() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=20).session_id)
    make(limit=1)
    fleet.put(2, cost=5)
    leader.run()
    found = next(one for one in stats.stats(ROOT, None, 60)["classes"] if one["slug"] == "critical")
    assert found["oldest_age_s"] is None
    assert found["limited_oldest_age_s"] is not None


# Rules


def test_budgets_are_listed_edited_with_a_version_and_ended() -> None:
    made = make()
    assert [item["slug"] for item in budgets.list_budgets(ROOT, "alpha").items] == ["daily"]
    assert budgets.list_budgets(ROOT, "beta").items == []
    edited = budgets.patch(ROOT, "alpha", "daily", made["version"], {"limit": 20, "alert_at": 0.5}, "more")
    assert (edited["limit"], edited["alert_at"], edited["version"]) == (20, 0.5, 2)
    with pytest.raises(VersionConflict) as conflict:
        budgets.patch(ROOT, "alpha", "daily", 1, {"limit": 30}, "x")
    assert conflict.value.extra["current"]["limit"] == 20
    with pytest.raises(Conflict):
        make()
    budgets.delete(ROOT, "alpha", "daily", "over")
    with pytest.raises(NotFound):
        budgets.get(ROOT, "alpha", "daily")
    assert make()["version"] == 1
    assert Budget.objects.count() == 2
    audited = AuditEvent.objects.get(action="patch_budget")
    assert (audited.before["limit"], audited.after["limit"], audited.reason) == (10, 20, "more")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": None}, "limit"),
        ({"limit": float("nan")}, "limit"),
        ({"window": "year"}, "window"),
        ({"window_s": 60}, "window_s"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"on_breach": "explode"}, "on_breach"),
        ({"on_breach": "degrade"}, "degrade_to"),
        ({"degrade_to": "background"}, "degrade_to"),
        ({"on_breach": "degrade", "degrade_to": "elsewhere", "class": "critical"}, "degrade_to"),
        ({"on_breach": "degrade", "degrade_to": "critical", "class": "critical"}, "degrade_to"),
        ({"class": "gamma"}, "class"),
        ({"user": "Ann Smith"}, "user"),
        ({"alert_at": 0}, "alert_at"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        make(**fields)
    assert [error["field"] for error in refusal.value.errors] == [field]


def test_scope_and_extras_are_checked() -> None:
    made = make()
    with pytest.raises(Invalid, match="class: cannot be changed"):
        budgets.patch(ROOT, "alpha", "daily", made["version"], {"class": "critical"}, "x")
    for amount in (0, -1, True, float("inf")):
        with pytest.raises(Invalid):
            budgets.top_up(ROOT, "alpha", "daily", amount, "x")
    for until in (
        datetime.now(UTC) - timedelta(1),
        datetime.now(UTC) + timedelta(800),
        datetime(2099, 1, 1),
    ):
        with pytest.raises(Invalid):
            budgets.override(ROOT, "alpha", "daily", 1, until, "x")
    with pytest.raises(Invalid):
        budgets.top_up(ROOT, "alpha", "daily", 1, " ")


def test_budgets_are_the_operators_and_their_own_tenants_to_see() -> None:
    make()
    dan = person(alpha="admin")
    assert budgets.get(dan, "alpha", "daily")["limit"] == 10
    assert budgets.list_budgets(key("read", tenant="alpha"), "alpha").items
    for caller in (person(beta="admin"), key("read", "operate", tenant="beta")):
        with pytest.raises(NotFound):
            budgets.get(caller, "alpha", "daily")
    for caller in (dan, key("operate", tenant="alpha"), person("auditor")):
        for verb in (
            lambda who: budgets.create(who, "alpha", "mine", {"limit": 1}),
            lambda who: budgets.patch(who, "alpha", "daily", 1, {"limit": 1}, "x"),
            lambda who: budgets.delete(who, "alpha", "daily"),
            lambda who: budgets.top_up(who, "alpha", "daily", 1, "x"),
        ):
            with pytest.raises(Forbidden):
                verb(caller)


@pytest.mark.parametrize(
    ("span", "span_s", "zone", "at", "start", "end"),
    [
        ("day", None, "UTC", "2026-03-01 12:00Z", "2026-03-01 00:00Z", "2026-03-02 00:00Z"),
        ("day", None, "Europe/Berlin", "2026-03-29 12:00Z", "2026-03-28 23:00Z", "2026-03-29 22:00Z"),
        ("week", None, "UTC", "2026-03-01 12:00Z", "2026-02-23 00:00Z", "2026-03-02 00:00Z"),
        ("month", None, "Asia/Tokyo", "2026-02-28 16:00Z", "2026-02-28 15:00Z", "2026-03-31 15:00Z"),
        ("hour", None, "Asia/Kolkata", "2026-03-01 12:10Z", "2026-03-01 11:30Z", "2026-03-01 12:30Z"),
        ("", 90.0, "UTC", "1970-01-01 00:02Z", "1970-01-01 00:01:30Z", "1970-01-01 00:03Z"),
        ("", None, "UTC", "2026-03-01 12:00Z", "1970-01-01 00:00Z", None),
    ],
)
def test_windows_follow_the_clock_of_their_time_zone(
    span: str, span_s: float | None, zone: str, at: str, start: str, end: str | None
) -> None:
    found = fleet.sql(
        "SELECT starts_at, ends_at FROM budget_window(%s, %s, %s, %s::timestamptz)", span, span_s, zone, at
    )
    want = tuple(None if text is None else datetime.fromisoformat(text) for text in (start, end))
    assert found == [want]
