"""Detectors on real rows: ages that frighten for nothing (H20), alerts that come and go, rules that are set."""

from typing import Any

import pytest

from dispatch.errors import Forbidden, Invalid, NotFound, VersionConflict
from dispatch.models import Alert, AuditEvent
from dispatch.services import detection, numbers, policy, rules, sampling
from tests import fleet
from tests.fleet import ROOT
from tests.services.world import key, make_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _departments() -> None:
    make_world()
    sampling._rest_until.clear()
    sampling._workers.clear()
    numbers._stopped.clear()


def look() -> list[tuple[str, str]]:
    """Sample, detect; what is open then. Samples of before go back, for the transaction's clock stands."""
    fleet.age_samples(1)
    fleet.sql("UPDATE sample_mark SET flow_to = flow_to - interval '1 s'")
    sampling.sample()
    detection.detect()
    return sorted(Alert.objects.filter(resolved_at=None).values_list("rule", "subject"))


def wait(task_id: int, seconds: float) -> None:
    fleet.sql("UPDATE task SET queued_at = now() - make_interval(secs => %s) WHERE id = %s", seconds, task_id)


def test_scheduled_backing_off_paused_running_and_limited_work_frightens_nobody() -> None:
    """H20: at 60 s of startable waiting one alert appears, and it goes when the task starts."""
    policy.patch(ROOT, "class", "background", 1, {"slo_queue_s": 60}, "limit")
    policy.create(ROOT, "tenant", "gamma", {"max": 0})
    of = {"work_class": "background"}
    (later,), (back,), (paused,), (running,), (limited,), (due,) = (
        fleet.put(1, **of),
        fleet.put(1, **of),
        fleet.put(1, tenant="beta", **of),
        fleet.put(1, **of),
        fleet.put(1, tenant="gamma", **of),
        fleet.put(1, **of),
    )
    for task, hours in ((later, 6), (back, 1)):
        fleet.sql(
            "UPDATE task SET state = 0, queued_at = NULL, run_at = now() + %s * interval '1 h' WHERE id = %s",
            hours,
            task,
        )
    policy.patch(ROOT, "tenant", "beta", 1, {"paused": True}, "x")
    session = fleet.join(slots=2).session_id
    fleet.hold(session, running)
    fleet.sql("UPDATE lease SET delivered_at = now() - interval '2 h', granted_at = now() - interval '2 h'")
    for task in (paused, limited):
        wait(task, 7200)
    fleet.sql("UPDATE task SET created_at = now() - interval '3 h', enqueued_at = now() - interval '3 h'")
    wait(due, 30)
    assert look() == []
    wait(due, 60)
    assert look() == [("queue_slo", "class:background")]
    assert look() == [("queue_slo", "class:background")]
    assert "has waited 60 s; the target is 60 s" in Alert.objects.get().text
    fleet.hold(session, due)
    assert look() == []


def history(slug: str, sql: str, seconds: int = 130, **fields: Any) -> None:
    """Samples of a class, one a second; `sql` gives the changing columns out of `n`, the seconds back."""
    fleet.sql(
        f"INSERT INTO queue_sample (at, step, pool_id, class_id, {', '.join(fields)})"
        f" SELECT now() - make_interval(secs => n), 1, %s, (SELECT id FROM work_class WHERE slug = %s), {sql}"
        " FROM generate_series(0, %s) n",
        fleet.pool_id(),
        slug,
        seconds,
    )


def flood() -> None:
    """Two minutes of critical work served and background work not."""
    columns = dict.fromkeys(("queued", "running", "oldest_age_s", "dispatched", "target"), 0)
    history("critical", "50, 2, 3, 4, 0.6", **columns)
    history("background", "20, 0, 200 - n, 0, 0.1", **columns)


def open_now() -> set[tuple[str, str]]:
    return set(Alert.objects.filter(resolved_at=None).values_list("rule", "subject"))


def test_a_starved_class_is_named_and_released() -> None:
    fleet.join(slots=2)
    flood()
    detection.detect()
    starved = {("queue_age_rising", "class:background"), ("near_zero_dispatch", "class:background")}
    assert open_now() == starved
    alert = Alert.objects.get(rule="queue_age_rising")
    assert alert.evidence["dispatched_before_it"]["critical"] > 200
    assert (alert.class_id, alert.pool_id) == (
        fleet.value("SELECT id FROM work_class WHERE slug='background'"),
        fleet.pool_id(),
    )
    detection.detect()
    assert Alert.objects.count() == 2
    fleet.sql("UPDATE queue_sample SET oldest_age_s = 5, dispatched = 2 WHERE queued = 20")
    detection.detect()
    assert open_now() == set()


def test_a_hole_in_the_samples_is_bridged_for_a_moment_and_no_longer() -> None:
    fleet.join(slots=2)
    flood()
    fleet.sql("DELETE FROM queue_sample WHERE at BETWEEN now() - interval '34 s' AND now() - interval '21 s'")
    detection.detect()
    assert ("near_zero_dispatch", "class:background") in open_now()
    Alert.objects.all().delete()
    fleet.sql("DELETE FROM queue_sample WHERE at BETWEEN now() - interval '70 s' AND now() - interval '21 s'")
    detection.detect()
    assert open_now() == set()


def test_a_tenant_that_has_the_slots_is_found_in_its_samples() -> None:
    fleet.join(slots=10)
    names = dict(fleet.sql("SELECT slug, id FROM tenant"))
    of_class = fleet.value("SELECT id FROM work_class WHERE slug = 'critical'")
    for tenant, queued, running in (("alpha", 50, 9), ("beta", 50, 1), (None, 100, 10)):
        fleet.sql(
            "INSERT INTO queue_sample (at, step, pool_id, class_id, tenant_id, queued, running, dispatched)"
            " SELECT date_bin('10 s', now(), '2000-01-01') - make_interval(secs => 10 * n), 10, %s, %s, %s, %s, %s, 0"
            " FROM generate_series(1, 20) n",
            fleet.pool_id(),
            of_class if tenant else None,
            names.get(tenant or ""),
            queued,
            running,
        )
    detection.detect()
    assert open_now() == {("capacity_consumed", "tenant:alpha")}
    assert Alert.objects.get().evidence["lends"] == {"beta": 4.0}


def test_deaths_and_stalls_are_counted_by_type_and_worker() -> None:
    one = fleet.held()
    for n in range(6):
        fleet.put(1, type="resize", key=f"k{n}")
    fleet.sql("UPDATE task SET state = 5, finished_at = now(), queued_at = NULL WHERE type = 'resize'")
    fleet.sql(
        "INSERT INTO attempt (task_id, token, attempt, pool_id, lane_id, session_id, worker_id, worker_name,"
        " granted_at, delivered_at, ended_at, outcome, counted) SELECT l.task_id, n, 1, l.pool_id, l.lane_id,"
        " l.session_id, 7, 'w7', now(), now(), now(), 3, true FROM lease l, generate_series(1, 3) n"
        " WHERE l.task_id = %s",
        one.task,
    )
    detection.detect()
    assert open_now() >= {("dead_letters_rising", "type:alpha/resize"), ("stalled_agents", "worker:7")}
    assert Alert.objects.get(rule="dead_letters_rising").tenant_id is not None


def test_rules_are_set_for_everything_or_one_class() -> None:
    fleet.join(slots=2)
    flood()
    changed = rules.patch_rule(ROOT, "near_zero_dispatch", 0, {"thresholds": {"load": 100}}, "noise")
    assert changed["version"] == 1
    assert {one["name"]: one["value"] for one in changed["thresholds"]}["load"] == 100
    off = rules.patch_rule(ROOT, "queue_age_rising", 0, {"enabled": False}, "known", "background")
    assert off["classes"] == [{"class": "background", "enabled": False, "version": 1, "thresholds": {}}]
    detection.detect()
    assert open_now() == set()
    rules.patch_rule(ROOT, "near_zero_dispatch", 0, {"thresholds": {"load": 1}}, "but here", "background")
    detection.detect()
    assert open_now() == {("near_zero_dispatch", "class:background")}
    back = rules.patch_rule(ROOT, "near_zero_dispatch", 1, {"thresholds": {"load": None}}, "back")
    assert {one["name"]: one["value"] for one in back["thresholds"]}["load"] == 1
    assert AuditEvent.objects.filter(action="patch_rule", refused=False).count() == 4


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("body", {"changes": {}}),
        ("thresholds.colour", {"changes": {"thresholds": {"colour": 3}}}),
        ("thresholds.window_s", {"changes": {"thresholds": {"window_s": 0}}}),
        ("thresholds.window_s", {"changes": {"thresholds": {"window_s": 1.5}}}),
        ("enabled", {"changes": {"enabled": "no"}}),
        ("reason", {"reason": " "}),
        ("class", {"work_class": "nothing"}),
    ],
)
def test_a_bad_rule_names_its_field(field: str, given: dict[str, Any]) -> None:
    good: dict[str, Any] = {"changes": {"enabled": False}, "reason": "x"}
    with pytest.raises(Invalid) as refused:
        rules.patch_rule(ROOT, "queue_age_rising", 0, **(good | given))
    assert [error["field"] for error in refused.value.errors] == [field]


def test_rules_are_for_operators_and_carry_versions() -> None:
    with pytest.raises(NotFound):
        rules.patch_rule(ROOT, "nothing", 0, {"enabled": False}, "x")
    with pytest.raises(Invalid):
        rules.patch_rule(ROOT, "stalled_agents", 0, {"enabled": False}, "x", "background")
    for caller in (key("read"), key("read", "operate", tenant="alpha"), person(alpha="admin")):
        with pytest.raises(Forbidden):
            rules.patch_rule(caller, "queue_slo", 0, {"enabled": False}, "x")
    rules.patch_rule(ROOT, "queue_slo", 0, {"enabled": False}, "x")
    with pytest.raises(VersionConflict):
        rules.patch_rule(ROOT, "queue_slo", 0, {"enabled": True}, "x")
    assert rules.get_rule(key("read"), "queue_slo")["enabled"] is False
