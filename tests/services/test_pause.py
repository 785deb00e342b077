"""Pause and resume at every scope, against the dispatcher itself."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.errors import Conflict, Forbidden, Invalid
from dispatch.models import AuditEvent, Pool, Tenant, WorkClass
from dispatch.services import access, claim, keys, overview, policy, upkeep, worker_control
from dispatch.services.pause import pause, resume
from dispatch.services.requeue import requeue
from dispatch.services.revoke import revoke
from dispatch.store import snapshot
from tests import fleet
from tests.services.test_dispatch import Leader, park
from tests.services.world import bury, key, person

pytestmark = pytest.mark.django_db

SCOPES = [
    ("all", None),
    ("pool", "default"),
    ("class", "critical"),
    ("tenant", "alpha"),
    ("tool", "crm"),
    ("worker", "w1"),
]


@pytest.fixture
def leader() -> Leader:
    fleet.world()
    policy.create(fleet.ROOT, "tool", "crm", {})
    snapshot._lanes.clear()
    snapshot._capsets.clear()
    return Leader()


@pytest.mark.parametrize(("scope", "slug"), SCOPES)
def test_a_paused_scope_starts_nothing_until_it_is_resumed(leader: Leader, scope: str, slug: str | None) -> None:
    session = fleet.join("w1").session_id
    park(session)
    fleet.put(1, tools=("crm",))
    answer = pause(fleet.OPERATOR, scope, slug, "flood")
    assert (answer["paused"], answer["by"], answer["changed"]) == (True, "key3", 1)
    assert leader.run() == 0
    assert claim.idle_reason(session)[0] == "paused"
    fresh = Leader()  # another process that knows nothing of before
    assert fresh.run() == 0
    assert resume(fleet.OPERATOR, scope, slug, "over")["changed"] == 1
    assert fresh.run() == 1
    verbs = list(
        AuditEvent.objects.order_by("id").filter(action__in=["pause", "resume"]).values_list("action", flat=True)
    )
    assert verbs == ["pause", "resume"]


def test_a_pause_holds_for_due_schedules_retries_and_requeues(leader: Leader) -> None:
    park(fleet.join("w1", slots=5).session_id)
    due, retried, dead, _ = fleet.put(4)
    fleet.sql(
        "UPDATE task SET state = 0, queued_at = NULL, run_at = now() - interval '1 s' WHERE id = ANY(%s)",
        [due, retried],
    )
    fleet.sql("UPDATE task SET attempts = 1, last_outcome = 1 WHERE id = %s", retried)
    bury(dead)
    pause(fleet.OPERATOR, "class", "critical", "flood")
    requeue(fleet.ROOT, dead)
    assert leader.run() == 0
    assert [fleet.state(id_) for id_ in (due, retried, dead)] == [1, 1, 1]
    resume(fleet.OPERATOR, "class", "critical", "over")
    assert leader.run() == 4


def test_what_runs_goes_on_under_a_pause(leader: Leader) -> None:
    held = fleet.held()
    pause(fleet.OPERATOR, "all", None, "maintenance")
    assert fleet.status(fleet.beat(held.session, (held.task, held.token))) == ["renewed"]
    assert fleet.ended("complete", held.task, held.token) == "succeeded"


@pytest.mark.parametrize(("scope", "slug"), [one for one in SCOPES if one[0] != "worker"])
def test_a_pause_ends_by_itself_and_ages_count_from_then(leader: Leader, scope: str, slug: str | None) -> None:
    park(fleet.join().session_id)
    (task,) = fleet.put(1, tools=("crm",))
    fleet.sql("UPDATE task SET queued_at = now() - interval '1 hour' WHERE id = %s", task)
    pause(fleet.OPERATOR, scope, slug, "flood", datetime.now(UTC) + timedelta(hours=1))
    assert leader.run() == 0
    (row,) = [one for one in overview.overview(fleet.ROOT)["classes"] if one["slug"] == "critical"]
    assert (row["limited"], row["oldest_age_s"]) == (1, None), "limited, not starving"
    assert row["limited_oldest_age_s"] >= 3600
    table = {"all": "pool", "class": "work_class"}.get(scope, scope)
    fleet.sql(f"UPDATE {table} SET paused_until = now() - interval '3 s' WHERE paused")
    overview.numbers._stopped.clear()  # a process that did not see the pause
    for swept in (False, True):
        if swept:
            assert upkeep.end_pauses() == 1
        (row,) = [one for one in overview.overview(fleet.ROOT)["classes"] if one["slug"] == "critical"]
        assert row["oldest_age_s"] == pytest.approx(3, abs=2)
    assert leader.run() == 1


def test_a_second_pause_replaces_the_first_and_an_idle_resume_changes_nothing(leader: Leader) -> None:
    pause(fleet.OPERATOR, "tenant", "alpha", "one")
    pause(fleet.ROOT, "tenant", "alpha", "two")
    alpha = Tenant.objects.get(slug="alpha")
    assert (alpha.pause_reason, alpha.paused_by, alpha.version) == ("two", "test", 3)
    resume(fleet.OPERATOR, "tenant", "alpha", "over")
    assert resume(fleet.OPERATOR, "tenant", "alpha", "over")["changed"] == 0
    assert AuditEvent.objects.filter(action="resume").count() == 1
    shown = policy.get(fleet.ROOT, "tenant", "alpha")
    assert (shown["paused"], shown["paused_by"]) == (False, None)


def test_all_means_every_pool_in_one_audit_entry(leader: Leader) -> None:
    policy.create(fleet.ROOT, "pool", "other", {})
    assert pause(fleet.ROOT, "all", None, "fire")["changed"] == 2
    assert set(Pool.objects.values_list("paused", flat=True)) == {True}
    assert AuditEvent.objects.get(action="pause").target == "all"


def test_bad_pauses_are_refused_by_field(leader: Leader) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("slug", {"scope": "all", "slug": "default"}),
        ("slug", {"scope": "class", "slug": None}),
        ("slug", {"scope": "class", "slug": "nothing"}),
        ("slug", {"scope": "worker", "slug": "nobody"}),
        ("scope", {"scope": "user", "slug": "x"}),
        ("reason", {"scope": "class", "slug": "critical", "reason": " "}),
        ("until", {"scope": "class", "slug": "critical", "until": past}),
        ("pool", {"scope": "class", "slug": "critical", "pool": "default"}),
    ]
    for field, given in cases:
        with pytest.raises(Invalid) as refused:
            pause(fleet.ROOT, **{"reason": "x"} | given)
        assert [error["field"] for error in refused.value.errors] == [field], given
    assert not WorkClass.objects.filter(paused=True).exists()


def test_workers_of_one_name_are_told_apart_by_their_pool(leader: Leader) -> None:
    policy.create(fleet.ROOT, "pool", "other", {})
    fleet.join("w1")
    fleet.join("w1", pool="other")
    with pytest.raises(Invalid) as refused:
        pause(fleet.ROOT, "worker", "w1", "x")
    assert refused.value.errors[0]["field"] == "pool"
    assert pause(fleet.ROOT, "worker", "w1", "x", pool="other")["changed"] == 1
    assert fleet.sql("SELECT p.slug FROM worker w JOIN pool p ON p.id = w.pool_id WHERE w.paused") == [("other",)]


def test_only_operators_of_the_whole_installation_pause(leader: Leader) -> None:
    fleet.join("w1")
    for caller in (
        key("read"),
        key("operate", tenant="beta"),
        person(beta="admin"),
        person(alpha="member"),
        person("auditor"),
    ):
        for scope, slug in SCOPES:
            for verb in (pause, resume):
                with pytest.raises((Forbidden, Invalid)) as refused:
                    verb(caller, scope, slug, "x")
                if isinstance(refused.value, Invalid):
                    assert (scope, refused.value.errors[0]["message"]) == ("tenant", "there is no such tenant")
        for changes in ({"draining": True}, {"paused": True}):
            with pytest.raises(Forbidden):
                worker_control.patch_worker(caller, 1, changes)
    policy.create(fleet.ROOT, "pool", "other", {})
    bound = key("operate", pool="other")
    for scope, slug in (("all", None), ("tenant", "alpha"), ("tool", "crm")):
        with pytest.raises(Forbidden):
            pause(bound, scope, slug, "x")
    for scope, slug in (("pool", "default"), ("class", "critical"), ("worker", "w1")):
        with pytest.raises(Invalid):
            pause(bound, scope, slug, "x")
    assert pause(bound, "pool", "other", "x")["changed"] == 1
    assert AuditEvent.objects.filter(refused=True, action="pause").exists()


def test_a_tenants_own_people_and_keys_pause_it_but_lift_no_operators_pause(leader: Leader) -> None:
    made = keys.create_key(fleet.ROOT, name="alpha-ops", scopes=["operate"], tenant="alpha")
    admin, robot = person(alpha="admin"), access.authenticate(made["key"])
    park(fleet.join().session_id)
    fleet.put(1)
    assert pause(admin, "tenant", "alpha", "flood")["changed"] == 1
    assert leader.run() == 0
    assert resume(robot, "tenant", "alpha", "over")["changed"] == 1, "all of the tenant's own are one"
    pause(robot, "tenant", "alpha", "again")
    assert pause(admin, "tenant", "alpha", "longer")["changed"] == 1
    assert pause(fleet.OPERATOR, "tenant", "alpha", "audit")["by"] == "key3"
    for verb in (pause, resume):
        for caller in (admin, robot):
            with pytest.raises(Forbidden, match="key3 has paused"):
                verb(caller, "tenant", "alpha", "x")
    resume(fleet.OPERATOR, "tenant", "alpha", "over")
    assert leader.run() == 1
    kept = AuditEvent.objects.filter(target_kind="tenant", action="pause", refused=False)
    assert set(kept.values_list("tenant_id", flat=True)) == {Tenant.objects.get(slug="alpha").pk}


def test_whose_a_pause_is_does_not_hang_on_names(leader: Leader) -> None:
    made = keys.create_key(fleet.ROOT, name="key3", scopes=["operate"], tenant="alpha")
    namesake, auditor = access.authenticate(made["key"]), person("auditor", alpha="admin")
    pause(fleet.OPERATOR, "tenant", "alpha", "audit")
    for verb in (pause, resume):
        with pytest.raises(Forbidden, match="key3 has paused"):
            verb(namesake, "tenant", "alpha", "x")
    resume(fleet.OPERATOR, "tenant", "alpha", "over")
    pause(namesake, "tenant", "alpha", "flood")
    keys.revoke_key(fleet.ROOT, made["id"])
    assert resume(auditor, "tenant", "alpha", "over")["changed"] == 1, "who may admin the tenant, whatever else"
    pause(auditor, "tenant", "alpha", "flood")
    version = policy.get(fleet.ROOT, "tenant", "alpha")["version"]
    resume(fleet.ROOT, "tenant", "alpha", "over")
    policy.patch(fleet.ROOT, "tenant", "alpha", version + 1, {"paused": True}, "audit")
    with pytest.raises(Forbidden, match="test has paused"):
        resume(auditor, "tenant", "alpha", "x")


@pytest.mark.parametrize(("kind", "slug"), SCOPES[1:-1])
def test_an_edit_that_repeats_paused_leaves_the_pause_as_it_is(leader: Leader, kind: str, slug: str) -> None:
    def edit(paused: bool) -> dict[str, Any]:
        version = policy.get(fleet.ROOT, kind, slug)["version"]
        return policy.patch(fleet.ROOT, kind, slug, version, {"paused": paused}, "edit")

    (task,) = fleet.put(1, tools=("crm",))
    fleet.sql("UPDATE task SET queued_at = now() - interval '1 hour' WHERE id = %s", task)
    edit(False)
    (row,) = [one for one in overview.overview(fleet.ROOT)["classes"] if one["slug"] == "critical"]
    assert row["oldest_age_s"] >= 3600, "nothing was resumed"
    until = datetime.now(UTC) + timedelta(hours=1)
    pause(fleet.OPERATOR, kind, slug, "flood", until)
    kept = edit(True)
    assert (kept["paused_by"], kept["pause_reason"], kept["paused_until"]) == ("key3", "flood", until)
    assert edit(False)["paused_by"] is None


def test_an_edit_of_a_worker_that_repeats_paused_leaves_the_pause_as_it_is(leader: Leader) -> None:
    worker_id = fleet.join("w1").worker_id
    until = datetime.now(UTC) + timedelta(hours=1)
    pause(fleet.OPERATOR, "worker", "w1", "flood", until)
    worker_control.patch_worker(fleet.ROOT, worker_id, {"paused": True, "weight": 2.0}, "edit")
    shown = worker_control.get_worker(fleet.ROOT, worker_id)
    assert (shown["paused_by"], shown["pause_reason"], shown["paused_until"]) == ("key3", "flood", until)
    resume(fleet.OPERATOR, "worker", "w1", "over")
    shown = worker_control.get_worker(fleet.ROOT, worker_id)
    assert (shown["paused"], shown["paused_by"], shown["paused_until"]) == (False, None, None)


# Workers


def test_a_drained_worker_gets_no_more_and_hears_it(leader: Leader) -> None:
    joined = fleet.join("w1", slots=2)
    fleet.put(2)
    park(joined.session_id, 1)
    assert leader.run() == 1
    answer = worker_control.patch_worker(fleet.OPERATOR, joined.worker_id, {"draining": True, "weight": 2.5}, "update")
    assert (answer["state"], answer["weight"], answer["running"]) == ("draining", 2.5, 1)
    park_again = fleet.ask(joined.session_id, wait_s=10)
    assert leader.run() == 0
    assert park_again.worker_directive == "drain"
    assert claim.idle_reason(joined.session_id) == ("draining", "drain")
    worker_control.patch_worker(fleet.OPERATOR, joined.worker_id, {"draining": False})
    fleet.ask(joined.session_id, wait_s=10)
    assert leader.run() == 1


def test_a_worker_is_shown_with_sessions_and_leases() -> None:
    fleet.world()
    held = fleet.held("w1")
    (worker_id,) = fleet.sql("SELECT worker_id FROM worker_session WHERE id = %s", held.session)[0]
    shown = worker_control.get_worker(fleet.ROOT, worker_id)
    assert [one["id"] for one in shown["open_sessions"]] == [held.session]
    assert [one["task_id"] for one in shown["leases"]] == [held.task]
    alpha = key("read", tenant="alpha")
    for caller, id_ in ((alpha, worker_id), (fleet.ROOT, 10**9), (fleet.ROOT, 0), (fleet.ROOT, 2**63)):
        with pytest.raises(Exception) as missing:
            worker_control.get_worker(caller, id_)
        assert str(missing.value) == worker_control.MISSING


def test_a_lifted_quarantine_closes_its_alert(leader: Leader) -> None:
    joined = fleet.join("w1")
    worker_control.patch_worker(fleet.ROOT, joined.worker_id, {"quarantined": True})
    fleet.put()
    fleet.ask(joined.session_id, wait_s=10)
    assert leader.run() == 0
    fleet.sql(
        "INSERT INTO alert (rule, subject, severity, text, evidence) VALUES ('quarantine', %s, 'warning', 'x', '{}')",
        f"worker:{joined.worker_id}",
    )
    worker_control.patch_worker(fleet.ROOT, joined.worker_id, {"quarantined": False}, "repaired")
    assert fleet.sql("SELECT resolved_at IS NOT NULL FROM alert") == [(True,)]
    assert leader.run() == 1


def test_a_revoked_lease_is_queued_again_uncounted() -> None:
    fleet.world()
    held = fleet.held()
    with pytest.raises(Invalid):
        revoke(fleet.OPERATOR, held.task, "")
    assert revoke(fleet.OPERATOR, held.task, "wrong host") == {"state": "queued"}
    assert fleet.sql("SELECT attempts, handbacks FROM task WHERE id = %s", held.task) == [(0, 1)]
    assert fleet.status(fleet.beat(held.session, (held.task, held.token))) == ["lost"]
    with pytest.raises(Conflict):
        revoke(fleet.OPERATOR, held.task, "again")
    fleet.invariants()
