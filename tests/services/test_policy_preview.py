"""A draft is tried on the backlog by the dispatcher's own core, and nothing of it is kept."""

from typing import Any

import pytest

from dispatch.errors import Forbidden, Invalid, VersionConflict
from dispatch.models import AuditEvent
from dispatch.services import policy, policy_preview, policy_sets
from dispatch.services.policy_preview import preview
from tests import fleet
from tests.services.world import key, person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def backlog() -> None:
    """Four slots; forty tasks each of two classes with equal weights."""
    fleet.world()
    fleet.join("w1", slots=4)
    fleet.put(40)
    fleet.put(40, work_class="background", tenant="beta")


def draft(kind: str = "class", slug: str = "critical", version: int = 1, **fields: Any) -> list[dict[str, Any]]:
    return [{"kind": kind, "slug": slug, "version": version, "set": fields}]


def of(found: dict[str, Any], plural: str, slug: str) -> dict[str, Any]:
    (line,) = [line for line in found[plural] if line["slug"] == slug]
    return dict(line)


def test_more_weight_is_seen_in_shares_and_waits_and_who_pays_is_named() -> None:
    newest, entries = policy_sets.newest(), AuditEvent.objects.count()
    found = preview(fleet.ROOT, draft(weight=3))
    assert (found["pool"], found["slots"], found["queued"], found["started"]) == ("default", 4, 80, 80)
    assert found["assumed_runtimes"], "nothing has run yet"
    critical, background = of(found, "classes", "critical"), of(found, "classes", "background")
    assert critical["before"]["share"] == pytest.approx(0.5, abs=0.01)
    assert critical["after"]["share"] == pytest.approx(0.75, abs=0.03)
    assert (critical["verdict"], background["verdict"]) == ("better", "worse")
    assert background["after"]["wait_p50_s"] > background["before"]["wait_p50_s"]
    assert background["after"]["drain_s"] >= critical["after"]["drain_s"]
    assert found["worse"] == ["class/background", "tenant/beta"]
    assert policy.get(fleet.ROOT, "class", "critical")["weight"] == 1, "a draft is never kept"
    assert (policy_sets.newest(), AuditEvent.objects.count()) == (newest, entries)


def test_the_policy_as_it_is_changes_nothing() -> None:
    found = preview(fleet.ROOT, draft(weight=1))
    for line in found["classes"] + found["tenants"]:
        assert line["before"] == line["after"] and line["verdict"] == "same"
    assert found["worse"] == []


def test_a_class_that_would_never_run_is_worse() -> None:
    found = preview(fleet.ROOT, draft(slug="background", max=0))
    background = of(found, "classes", "background")
    assert background["before"]["drain_s"] is not None
    assert (background["after"]["drain_s"], background["after"]["share"]) == (None, 0)
    assert background["verdict"] == "worse" and background["after"]["gap_s"] >= 6 * 3600
    assert found["warnings"][0]["field"] == "changes[0].max"


def test_what_runs_keeps_its_slot_and_runtimes_are_those_of_lately() -> None:
    session = fleet.join("w2", slots=2)
    running = fleet.put(2, tenant="beta")
    fleet.hold(session.session_id, *running)
    fleet.sql(
        "INSERT INTO attempt (task_id, token, attempt, pool_id, lane_id, session_id, worker_id, worker_name, "
        "granted_at, delivered_at, ended_at, outcome, counted) SELECT id, 1, 1, pool_id, lane_id, 1, 1, 'w', "
        "now() - interval '10 s', now() - interval '10 s', now(), 0, false FROM task WHERE id = %s",
        running[0],
    )
    found = preview(fleet.ROOT, draft(weight=1))
    assert not found["assumed_runtimes"]
    assert of(found, "classes", "critical")["before"]["drain_s"] < 200, "80 tasks of 10 s on six slots"
    assert of(found, "tenants", "beta")["before"]["share"] > 0


def test_more_queues_than_a_preview_bears_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_preview, "LANES", 1)
    with pytest.raises(Invalid, match="2 queues with work"):
        preview(fleet.ROOT, draft(weight=2))


def test_a_long_backlog_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_preview, "MOST", 20)
    found = preview(fleet.ROOT, draft(weight=3))
    assert (found["queued"], found["started"]) == (80, 20)
    critical = of(found, "classes", "critical")
    assert critical["after"]["drain_s"] is None and critical["verdict"] == "better"


def test_no_workers_start_nothing() -> None:
    fleet.sql("UPDATE worker_session SET closed_at = now()")
    found = preview(fleet.ROOT, draft(weight=3))
    assert (found["slots"], found["started"], found["worse"]) == (0, 0, [])
    assert of(found, "classes", "critical")["after"]["drain_s"] is None


def test_refusals_are_those_of_saving() -> None:
    with pytest.raises(Invalid, match=r"changes\[0\]\.weight"):
        preview(fleet.ROOT, draft(weight=-1))
    with pytest.raises(VersionConflict):
        preview(fleet.ROOT, draft(version=7, weight=2))
    with pytest.raises(Invalid):
        preview(fleet.ROOT, [])
    for caller in (person(alpha="admin"), key("read"), key("operate", tenant="alpha")):
        with pytest.raises(Forbidden):
            preview(caller, draft(weight=2))
