"""Limits inside a tenant: users, classes, the department's own limits under the operators' ceiling."""

from typing import Any

import pytest

from dispatch.errors import Conflict, Forbidden, Invalid, NotFound, VersionConflict
from dispatch.models import AuditEvent, Tenant
from dispatch.services import policy, quota_requests, tenant_limits
from dispatch.services.explain import why
from tests import fleet
from tests.services.leader import Leader, park, running
from tests.services.leader import forget as forget_lanes
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    forget_lanes()
    make_world()


def version() -> int:
    return int(Tenant.objects.get(slug="alpha").version)


def lower(caller: Any, **changes: Any) -> dict[str, Any]:
    return policy.patch(caller, "tenant", "alpha", version(), changes, "test")


def last_audit() -> AuditEvent:
    return AuditEvent.objects.latest("id")


# What a department may do


@pytest.mark.parametrize("who", ["person", "key"])
def test_a_department_lowers_its_own_limits_and_raises_them_up_to_the_ceiling(who: str) -> None:
    dan = person(alpha="admin") if who == "person" else key("operate", tenant="alpha")
    lower(ROOT, max=10, max_queued=100)
    assert lower(dan, max=5, user_max=2)["ceilings"] == {"max": 10, "user_max": None}
    assert lower(dan, max=8)["max"] == 8
    with pytest.raises(Invalid, match="max: must be at most 10, the operators' ceiling"):
        lower(dan, max=11)
    with pytest.raises(Invalid):
        lower(dan, max=None)
    assert lower(dan, max=10, user_max=None)["ceilings"] == {}
    assert last_audit().after["max"] == 10
    assert lower(dan, max=1)["ceilings"] == {"max": 10}
    assert lower(ROOT, max=3)["ceilings"] == {}, "an operator's edit is the new ceiling"
    with pytest.raises(Invalid):
        lower(dan, max=4)


def test_the_rest_is_the_operators() -> None:
    dan = person(alpha="admin", beta="viewer")
    for changes in ({"weight": 9}, {"nominal": 3}, {"max": 1, "cost_budget": 5}, {"paused": True}):
        with pytest.raises(Forbidden, match="Only operators change"):
            lower(dan, **changes)
    with pytest.raises(Forbidden):
        policy.patch(dan, "tenant", "beta", 1, {"max": 1}, "x")
    with pytest.raises(NotFound):
        policy.patch(person(alpha="admin"), "tenant", "beta", 1, {"max": 1}, "x")
    with pytest.raises(Forbidden):
        policy.patch(dan, "class", "critical", 1, {"max": 1}, "x")
    refused = AuditEvent.objects.filter(refused=True).count()
    assert refused == 7, "every refusal of a person is in the audit"


# Users and classes


@pytest.mark.parametrize(("kind", "name"), [("user", "ann"), ("user", "-"), ("class", "critical")])
def test_limits_are_put_read_listed_and_taken_away(kind: str, name: str) -> None:
    with pytest.raises(NotFound):
        tenant_limits.get(ROOT, "alpha", kind, name)
    put = tenant_limits.put(ROOT, "alpha", kind, name, {"max": 3}, reason="busy")
    assert (put[kind], put["max"], put["ceiling"], put["version"]) == (name, 3, 3, 1)
    assert tenant_limits.get(ROOT, "alpha", kind, name) == put
    assert tenant_limits.put(ROOT, "alpha", kind, name, {"max": 4}, version=1)["version"] == 2
    with pytest.raises(VersionConflict) as conflict:
        tenant_limits.put(ROOT, "alpha", kind, name, {"max": 5}, version=1)
    assert conflict.value.extra["current"]["max"] == 4
    assert [item[kind] for item in tenant_limits.list_limits(ROOT, "alpha", kind).items] == [name]
    assert tenant_limits.list_limits(ROOT, "beta", kind).items == []
    tenant_limits.delete(ROOT, "alpha", kind, name)
    assert tenant_limits.get(ROOT, "alpha", kind, name)["max"] is None
    assert (last_audit().action, last_audit().target) == (f"put_tenant_{kind}", f"alpha/{name}")


@pytest.mark.parametrize(
    ("kind", "name", "fields", "field"),
    [
        ("user", "ann", {"max": -1}, "max"),
        ("user", "ann", {"max": True}, "max"),
        ("user", "ann", {"weight": None}, "weight"),
        ("user", "ann", {"weight": float("nan")}, "weight"),
        ("class", "critical", {"weight": 1}, "weight"),
        ("class", "critical", {"max": "3"}, "max"),
    ],
)
def test_nonsense_is_refused_by_its_name(kind: str, name: str, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        tenant_limits.put(ROOT, "alpha", kind, name, fields)
    assert [error["field"] for error in refusal.value.errors] == [field]


@pytest.mark.parametrize(("kind", "name"), [("user", "Ann"), ("user", "a\0"), ("class", "gamma"), ("class", "\ud800")])
def test_names_that_cannot_be_are_missing(kind: str, name: str) -> None:
    for verb in (
        lambda: tenant_limits.put(ROOT, "alpha", kind, name, {}),
        lambda: tenant_limits.get(ROOT, "a", kind, name),
    ):
        with pytest.raises(NotFound):
            verb()
    with pytest.raises(NotFound):
        tenant_limits.delete(ROOT, "alpha", kind, name)


@pytest.mark.parametrize(("kind", "name"), [("user", "ann"), ("class", "critical")])
def test_an_operators_limit_is_the_departments_ceiling(kind: str, name: str) -> None:
    dan = person(alpha="admin", beta="viewer")
    assert tenant_limits.put(dan, "alpha", kind, name, {"max": 50})["ceiling"] is None
    tenant_limits.put(ROOT, "alpha", kind, name, {"max": 3})
    with pytest.raises(Invalid, match="at most 3"):
        tenant_limits.put(dan, "alpha", kind, name, {"max": 4})
    assert tenant_limits.put(dan, "alpha", kind, name, {"max": 1})["ceiling"] == 3
    tenant_limits.delete(dan, "alpha", kind, name)
    assert tenant_limits.get(dan, "alpha", kind, name)["max"] == 3
    for caller, error in (
        (dan, Forbidden),
        (person(alpha="admin"), NotFound),
        (key("operate", tenant="alpha"), NotFound),
    ):
        with pytest.raises(error):
            tenant_limits.put(caller, "beta", kind, name, {"max": 1})
    for caller in (person(alpha="member"), person("auditor"), key("submit", tenant="alpha")):
        with pytest.raises(Forbidden):
            tenant_limits.put(caller, "alpha", kind, name, {"max": 1})


def test_the_dispatcher_keeps_a_tenants_limit_in_a_class_and_says_so() -> None:
    leader = Leader()
    park(fleet.join("w1", slots=9).session_id)
    tenant_limits.put(ROOT, "alpha", "class", "critical", {"max": 2})
    tenant_limits.put(ROOT, "alpha", "user", "ann", {"max": 1})
    waiting = fleet.put(5)[-1]
    fleet.put(3, tenant="beta")
    of_ann = fleet.put(2, work_class="background", user="ann")[-1]
    leader.run()
    assert running() == {"alpha": 3, "beta": 3}
    assert running("work_class_id") == {"critical": 5, "background": 1}
    (blocker,) = [one for one in why(ROOT, waiting)["blockers"] if one["code"] == "tenant_max"]
    assert (blocker["kind"], blocker["subject"], blocker["value"], blocker["limit"]) == ("part", "critical", 2, 2)
    assert blocker["text"] == "The tenant runs 2 of at most 2 in the class critical."
    assert "user_max" in [one["code"] for one in why(ROOT, of_ann)["blockers"]]
    tenant_limits.delete(ROOT, "alpha", "class", "critical")
    tenant_limits.put(ROOT, "alpha", "user", "ann", {"max": 2})
    leader.run()
    assert running("work_class_id") == {"critical": 7, "background": 2}


# Requests for more


def ask(caller: Any, reason: str = "quarter end", classes: Any = None, **changes: Any) -> dict[str, Any]:
    return quota_requests.create(caller, "alpha", changes, classes or {}, reason)


def test_a_request_is_asked_seen_previewed_and_granted_at_once() -> None:
    dan, olga = person(alpha="admin"), person("operator")
    lower(ROOT, max=10)
    tenant_limits.put(ROOT, "alpha", "class", "critical", {"max": 2})
    made = ask(dan, max=20, nominal=5, classes={"critical": 6, "background": None})
    assert (made["state"], made["created_by"]) == ("open", dan.name)
    assert quota_requests.list_requests(person(beta="admin")).items == []
    assert [item["id"] for item in quota_requests.list_requests(olga, "open").items] == [made["id"]]
    seen = quota_requests.get(olga, made["id"])
    assert (seen["current"]["max"], seen["current"]["classes"]) == (10, {"critical": 2, "background": None})
    assert quota_requests.preview(olga, made["id"])["errors"] == []
    with pytest.raises(VersionConflict):
        quota_requests.approve(olga, made["id"], seen["current"]["version"] - 1)
    with pytest.raises(Forbidden):
        quota_requests.approve(dan, made["id"], seen["current"]["version"])
    assert Tenant.objects.get(slug="alpha").max == 10
    done = quota_requests.approve(olga, made["id"], seen["current"]["version"], "fine")
    assert (done["state"], done["answered_by"], done["note"]) == ("approved", olga.name, "fine")
    assert (done["current"]["max"], done["current"]["nominal"]) == (20, 5)
    assert tenant_limits.get(dan, "alpha", "class", "critical")["max"] == 6
    actions = list(AuditEvent.objects.filter(refused=False).order_by("-id").values_list("action", flat=True)[:5])
    assert actions == [
        "approve_quota_request",
        "put_tenant_class",
        "put_tenant_class",
        "patch_tenant",
        "create_quota_request",
    ]
    with pytest.raises(Conflict, match="approved already"):
        quota_requests.refuse(olga, made["id"], "no")


def test_a_request_that_the_policy_forbids_changes_nothing() -> None:
    olga = person("operator")
    made = ask(person(alpha="admin"), max=1, nominal=5, classes={"critical": 6})
    assert [error["field"] for error in quota_requests.preview(olga, made["id"])["errors"]] == ["nominal"]
    with pytest.raises(Invalid):
        quota_requests.approve(olga, made["id"], version())
    assert quota_requests.get(olga, made["id"])["state"] == "open"
    assert tenant_limits.list_limits(olga, "alpha", "class").items == []
    assert quota_requests.refuse(olga, made["id"], "contradicts itself")["state"] == "refused"


def test_requests_are_withdrawn_bounded_and_nobody_elses() -> None:
    dan, bea = person(alpha="admin"), person(beta="admin")
    made = ask(dan, max=5)
    for verb in (quota_requests.get, quota_requests.withdraw):
        with pytest.raises(NotFound):
            verb(bea, made["id"])
    assert quota_requests.withdraw(dan, made["id"])["state"] == "withdrawn"
    for n in range(quota_requests.MAX_OPEN):
        ask(dan, max=n + 1)
    with pytest.raises(Conflict):
        ask(dan, max=1)
    page = quota_requests.list_requests(dan, limit=15)
    assert len(quota_requests.list_requests(dan, limit=15, cursor=page.next_cursor).items) == 6
    for caller in (person(alpha="member"), person("auditor")):
        with pytest.raises(Forbidden):
            ask(caller, max=1)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "changes"),
        ({"weight": 3}, "weight"),
        ({"max": -1}, "max"),
        ({"classes": {"gamma": 1}}, "classes.gamma"),
        ({"classes": {"critical": True}}, "classes.critical"),
        ({"max": 1, "reason": " "}, "reason"),
    ],
)
def test_a_request_for_nonsense_is_refused_by_its_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        ask(person(alpha="admin"), **given)
    assert [error["field"] for error in refusal.value.errors] == [field]
