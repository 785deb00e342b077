"""Policy edits: fields, ranges, contradictions, warnings, versions, rights, history."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from django.apps import apps

from dispatch.errors import Conflict, EvenflowError, Forbidden, Invalid, NotFound, VersionConflict
from dispatch.models import AuditEvent, PoolLeader
from dispatch.services import access, keys, policy
from dispatch.services.cancel import cancel
from dispatch.services.submit import submit
from tests.services.world import ROOT, key, lease, make_world, person, put, spec

pytestmark = pytest.mark.django_db

POOL = {
    "budget": None,
    "lease_ttl_s": 30,
    "heartbeat_every_s": 10,
    "offer_ttl_s": 5,
    "max_reclaims": None,
    "max_handbacks": 100,
    "promotion_slots": None,
    "user_max": None,
    "max_task_cost": None,
    "cost_unit": "slot-seconds",
    "paused": False,
    "version": 1,
}
CLASS = {
    "pool": "default",
    "weight": 1,
    "min": 0,
    "max": None,
    "lend": None,
    "level": 1,
    "aging_step_s": None,
    "max_wait_s": None,
    "slo_queue_s": None,
    "slo_done_s": None,
    "max_attempts": 3,
    "backoff_s": 5,
    "backoff_max_s": 300,
    "default_cost": None,
    "preempt": False,
    "retain_s": 1209600,
    "paused": False,
    "version": 1,
}
TENANT = {
    "weight": 1,
    "nominal": 0,
    "max": None,
    "borrow": None,
    "user_max": None,
    "max_queued": None,
    "submit_per_minute": None,
    "cost_budget": None,
    "budget_window_s": None,
    "paused": False,
    "version": 1,
}
TOOL = {"max": None, "cooldown_until": None, "paused": False, "version": 1}


def patch(kind: str, name: str, **changes: Any) -> dict[str, Any]:
    return policy.patch(ROOT, kind, name, policy.get(ROOT, kind, name)["version"], changes, "test")


def field_of(refusal: pytest.ExceptionInfo[Invalid]) -> list[str]:
    return [error["field"] for error in refusal.value.errors]


@pytest.mark.parametrize(
    ("kind", "defaults"), [("pool", POOL), ("class", CLASS), ("tenant", TENANT), ("tool", TOOL), ("capability", {})]
)
def test_a_name_is_enough_and_the_rest_has_defaults(kind: str, defaults: dict[str, Any]) -> None:
    made = policy.create(ROOT, kind, "new.one-1", {})
    assert {name: made[name] for name in defaults} == defaults
    assert (made["slug"], made["warnings"]) == ("new.one-1", [])
    shown = policy.get(ROOT, kind, "new.one-1")
    assert {**shown, "warnings": []} == made
    with pytest.raises(Conflict):
        policy.create(ROOT, kind, "new.one-1", {})
    if kind == "pool":
        assert PoolLeader.objects.filter(pool__slug="new.one-1").exists()


@pytest.mark.parametrize("slug", ["", "A", " a", "a b", "-a", "a/b", "ä", "a\0", "x" * 64, None, 7, True])
def test_a_bad_name_is_refused(slug: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        policy.create(ROOT, "tenant", slug, {})
    assert field_of(refusal) == ["slug"]


@pytest.mark.parametrize("kind", ["tenant", "class"])
@pytest.mark.parametrize(
    "weight",
    [-1, 0.0001, 1e9, 1000.1, math.inf, -math.inf, math.nan, "NaN", "", "3", None, True, False, [1], {}, 10**400],
)
def test_absurd_weights_are_refused_and_the_old_one_stays(kind: str, weight: Any) -> None:
    policy.create(ROOT, kind, "one", {"weight": 2})
    with pytest.raises(Invalid) as refusal:
        patch(kind, "one", weight=weight)
    assert field_of(refusal) == ["weight"]
    assert (policy.get(ROOT, kind, "one")["weight"], policy.get(ROOT, kind, "one")["version"]) == (2, 1)
    with pytest.raises(Invalid):
        policy.create(ROOT, kind, "two", {"weight": weight})


@pytest.mark.parametrize("weight", [0, 0.0, 0.001, 1, 0.5, 1000, 1000.0])
def test_good_weights_are_taken(weight: float) -> None:
    policy.create(ROOT, "class", "one", {})
    assert patch("class", "one", weight=weight)["weight"] == weight


@pytest.mark.parametrize(
    ("kind", "changes", "field"),
    [
        ("pool", {"lease_ttl_s": 0.5}, "lease_ttl_s"),
        ("pool", {"lease_ttl_s": 86401}, "lease_ttl_s"),
        ("pool", {"lease_ttl_s": 19}, "lease_ttl_s"),
        ("pool", {"heartbeat_every_s": 16}, "heartbeat_every_s"),
        ("pool", {"lease_ttl_s": 10, "heartbeat_every_s": 6}, "lease_ttl_s"),
        ("pool", {"budget": -1}, "budget"),
        ("pool", {"budget": 1.5}, "budget"),
        ("pool", {"budget": 10.0}, "budget"),
        ("pool", {"max_handbacks": None}, "max_handbacks"),
        ("pool", {"user_max": 0}, "user_max"),
        ("pool", {"cost_unit": ""}, "cost_unit"),
        ("pool", {"cost_unit": "a\0b"}, "cost_unit"),
        ("pool", {"max_task_cost": 0}, "max_task_cost"),
        ("pool", {"paused": "yes"}, "paused"),
        ("pool", {"color": "red"}, "color"),
        ("pool", {"version": 3}, "version"),
        ("class", {"min": 5, "max": 4}, "min"),
        ("class", {"lend": 1}, "lend"),
        ("class", {"level": 0}, "level"),
        ("class", {"aging_step_s": 0}, "aging_step_s"),
        ("class", {"max_wait_s": -1}, "max_wait_s"),
        ("class", {"max_attempts": 101}, "max_attempts"),
        ("class", {"max_attempts": None}, "max_attempts"),
        ("class", {"preempt": 1}, "preempt"),
        ("class", {"pool": "other"}, "pool"),
        ("tenant", {"nominal": 3, "max": 2}, "nominal"),
        ("tenant", {"borrow": -1}, "borrow"),
        ("tenant", {"submit_per_minute": 2**40}, "submit_per_minute"),
        ("tenant", {"cost_budget": math.inf}, "cost_budget"),
        ("tool", {"max": True}, "max"),
        ("tool", {"cooldown_until": "soon"}, "cooldown_until"),
        ("tool", {"cooldown_until": datetime(2030, 1, 1)}, "cooldown_until"),
        ("tool", {"slug": "renamed"}, "slug"),
        ("capability", {"weight": 1}, "weight"),
    ],
)
def test_what_is_out_of_range_is_refused_at_its_field(kind: str, changes: dict[str, Any], field: str) -> None:
    slug = "default" if kind == "pool" else "one"
    if kind != "pool":
        policy.create(ROOT, kind, slug, {})
    with pytest.raises(Invalid) as refusal:
        patch(kind, slug, **changes)
    assert field_of(refusal) == [field]
    assert policy.get(ROOT, kind, slug)["version"] == 1


def test_a_contradiction_is_named_where_the_edit_made_it() -> None:
    policy.create(ROOT, "class", "one", {"min": 2, "max": 5})
    for changes, field in (({"max": 1}, "max"), ({"min": 6}, "min"), ({"lend": 3}, "lend")):
        with pytest.raises(Invalid) as refusal:
            patch("class", "one", **changes)
        assert field_of(refusal) == [field]
    patch("class", "one", lend=2)
    with pytest.raises(Invalid) as refusal:
        patch("class", "one", min=1)
    assert field_of(refusal) == ["min"]


def test_floors_and_promotion_fit_the_budget() -> None:
    patch("pool", "default", budget=10)
    policy.create(ROOT, "class", "one", {"min": 6})
    policy.create(ROOT, "class", "two", {"min": 4})  # nobody is promoted: no slot is set aside
    for kind, slug, changes, field in (
        ("class", "two", {"min": 5}, "min"),
        ("class", "two", {"max_wait_s": 60}, "max_wait_s"),
        ("pool", "default", {"budget": 9}, "budget"),
        ("pool", "default", {"promotion_slots": 1}, "promotion_slots"),
    ):
        with pytest.raises(Invalid) as refusal:
            patch(kind, slug, **changes)
        assert field_of(refusal) == [field]
    with pytest.raises(Invalid):
        policy.create(ROOT, "class", "three", {"min": 1})
    patch("class", "two", weight=5)  # untouched by what it did not change
    patch("pool", "default", promotion_slots=0)
    with pytest.raises(Invalid) as refusal:
        patch("class", "two", max_wait_s=60)
    assert field_of(refusal) == ["max_wait_s"]


def test_nominal_quotas_fit_some_pool() -> None:
    policy.create(ROOT, "tenant", "one", {"nominal": 8})
    patch("pool", "default", budget=10)
    with pytest.raises(Invalid) as refusal:
        policy.create(ROOT, "tenant", "two", {"nominal": 3})
    assert field_of(refusal) == ["nominal"]
    policy.create(ROOT, "pool", "large", {})
    policy.create(ROOT, "tenant", "two", {"nominal": 3})


def test_doubts_are_warnings() -> None:
    make_world()
    lease(put().id)
    for kind, slug, changes, field in (
        ("class", "critical", {"max": 0}, "max"),
        ("class", "background", {"weight": 0}, "weight"),
        ("class", "interactive", {"level": 2}, "level"),
        ("class", "interactive", {"level": 1, "max_wait_s": 60, "slo_queue_s": 30}, "max_wait_s"),
        ("class", "background", {"weight": 1, "min": 9}, "min"),
        ("tenant", "alpha", {"max": 0}, "max"),
        ("tenant", "beta", {"cost_budget": 5}, "cost_budget"),
        ("tool", "crm", {"max": 0}, "max"),
        ("pool", "default", {"budget": 0}, None),
    ):
        if field is None:
            with pytest.raises(Invalid):
                patch(kind, slug, **changes)
            continue
        assert field in [warning["field"] for warning in patch(kind, slug, **changes)["warnings"]], (slug, changes)
    patch("class", "background", min=0)
    assert patch("class", "background", weight=1)["warnings"] == []


def test_the_second_editor_is_told_what_is_there_now() -> None:
    policy.create(ROOT, "class", "one", {})
    policy.patch(ROOT, "class", "one", 1, {"weight": 5}, "first")
    with pytest.raises(VersionConflict) as refusal:
        policy.patch(ROOT, "class", "one", 1, {"weight": 7}, "second")
    current = refusal.value.extra["current"]
    assert (current["weight"], current["version"]) == (5, 2)
    for version in (0, 3, -1, None, "2", True):
        with pytest.raises(EvenflowError):
            policy.patch(ROOT, "class", "one", version, {"weight": 7}, "odd")  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["", "   ", "a\0b", "x" * 2001])
def test_an_edit_needs_a_reason(reason: str) -> None:
    policy.create(ROOT, "class", "one", {})
    with pytest.raises(Invalid) as refusal:
        policy.patch(ROOT, "class", "one", 1, {"weight": 5}, reason)
    assert field_of(refusal) == ["reason"]


def test_an_edit_leaves_an_audit_entry_and_a_history_row() -> None:
    olga = person("operator")
    policy.create(olga, "class", "one", {})
    policy.patch(olga, "class", "one", 1, {"weight": 5}, "rush")
    entry = AuditEvent.objects.get(action="patch_class")
    assert (entry.actor_name, entry.reason, entry.before["weight"], entry.after["weight"]) == (olga.name, "rush", 1, 5)
    row = apps.get_model("dispatch", "WorkClassEvent").objects.order_by("pgh_id").last()
    assert row.weight == 5
    assert row.pgh_context.metadata["reason"] == "rush"
    assert row.pgh_context.metadata["actor"] == olga.name


def test_a_pause_knows_who_and_why() -> None:
    policy.create(ROOT, "tool", "crm", {})
    paused = policy.patch(ROOT, "tool", "crm", 1, {"paused": True}, "migration")
    assert (paused["paused"], paused["paused_by"], paused["pause_reason"]) == (True, "test", "migration")
    resumed = policy.patch(ROOT, "tool", "crm", 2, {"paused": False}, "done")
    assert (resumed["paused"], resumed["paused_by"], resumed["paused_at"]) == (False, None, None)


def test_pages_of_names() -> None:
    for number in range(5):
        policy.create(ROOT, "tool", f"t{number}", {})
    first = policy.list_(ROOT, "tool", limit=2)
    assert first.next_cursor
    policy.delete(ROOT, "tool", "t1", "gone")
    policy.create(ROOT, "tool", "t11", {})
    rest = policy.list_(ROOT, "tool", limit=10, cursor=first.next_cursor)
    assert [item["slug"] for item in first.items + rest.items] == ["t0", "t1", "t11", "t2", "t3", "t4"]
    with pytest.raises(Invalid):
        policy.list_(ROOT, "class", cursor=first.next_cursor)
    with pytest.raises(NotFound):
        policy.list_(ROOT, "spoon")


def test_who_may_read_and_who_may_write() -> None:
    make_world()
    bound = key("read", "operate", tenant="alpha")
    for caller in (bound, person(alpha="admin"), key("submit", tenant="alpha")):
        assert [item["slug"] for item in policy.list_(caller, "tenant").items] == ["alpha"]
        for verb in (
            lambda who: policy.get(who, "tenant", "beta"),
            lambda who: policy.get(who, "tenant", "gamma"),
        ):
            with pytest.raises(NotFound):
                verb(caller)
    for caller in (bound, person(alpha="admin")):
        with pytest.raises(NotFound):
            policy.patch(caller, "tenant", "beta", 1, {"weight": 2}, "mine")
        with pytest.raises(Forbidden):
            policy.patch(caller, "tenant", "alpha", 1, {"weight": 2}, "mine")
        with pytest.raises(Forbidden):
            policy.create(caller, "tenant", "delta", {})
        with pytest.raises(Forbidden):
            policy.delete(caller, "class", "critical", "mine")
    for caller in (key("read"), key("admin"), person("auditor"), key("submit")):
        with pytest.raises(Forbidden):
            policy.patch(caller, "class", "critical", 1, {"weight": 2}, "no")
    with pytest.raises(Forbidden):
        policy.get(person(), "class", "critical")
    pooled = key("read", pool="other")
    assert [item["slug"] for item in policy.list_(pooled, "class").items] == ["elsewhere"]
    assert [item["slug"] for item in policy.list_(pooled, "pool").items] == ["other"]
    with pytest.raises(NotFound):
        policy.get(pooled, "class", "critical")
    refused = AuditEvent.objects.filter(refused=True)
    assert set(refused.values_list("action", flat=True)) == {
        "patch_tenant",
        "create_tenant",
        "delete_class",
        "patch_class",
    }


def test_what_is_in_use_stays_and_what_is_not_goes() -> None:
    make_world()
    made = keys.create_key(ROOT, name="agent", scopes=["work"], tenant="alpha")
    access.authenticate(made["key"])
    task_id = put(tools=("crm",), capabilities=("gpu",)).id
    for kind, slug in (
        ("tenant", "alpha"),
        ("class", "critical"),
        ("tool", "crm"),
        ("capability", "gpu"),
        ("pool", "default"),
    ):
        with pytest.raises(Conflict) as refusal:
            policy.delete(ROOT, kind, slug, "tidy")
        if kind != "pool":
            assert refusal.value.extra["queued"] == 1
    with pytest.raises(Conflict) as refusal:
        policy.delete(ROOT, "pool", "other", "tidy")
    assert refusal.value.extra["classes"] == 1
    cancel(ROOT, task_id)
    for kind, slug in (("tenant", "alpha"), ("class", "critical"), ("tool", "crm"), ("capability", "gpu")):
        policy.delete(ROOT, kind, slug, "tidy")
        with pytest.raises(NotFound):
            policy.get(ROOT, kind, slug)
        assert slug not in [item["slug"] for item in policy.list_(ROOT, kind).items]
    with pytest.raises(Invalid) as refused:
        submit(ROOT, [spec()], batch=False)
    assert field_of(refused) == ["tenant", "class"]
    with pytest.raises(EvenflowError):
        access.authenticate(made["key"])
    revived = policy.create(ROOT, "class", "critical", {"weight": 2})
    assert (revived["weight"], revived["min"], revived["version"]) == (2, 0, 3)


def test_cooldown_is_a_time() -> None:
    policy.create(ROOT, "tool", "crm", {})
    until = datetime(2100, 1, 1, tzinfo=UTC)
    assert patch("tool", "crm", cooldown_until=until)["cooldown_until"] == until
