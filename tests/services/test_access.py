"""Who asks: keys, people, caches, and what a key may hand on."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dispatch.errors import EvenflowError, Forbidden, Invalid, NotFound, Unauthenticated
from dispatch.models import ApiKey, AuditEvent, User
from dispatch.services import access, audit, keys
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def test_a_key_is_shown_once_and_known_again() -> None:
    made = keys.create_key(ROOT, name="agents", scopes=["work", "submit"], tenant="alpha", pool="other")
    assert made["key"].startswith(f"ef_{made['prefix']}_")
    assert len(made["prefix"]) == 8
    stored = ApiKey.objects.get()
    assert made["key"].split("_")[2].encode() not in bytes(stored.digest)
    caller = access.authenticate(made["key"])
    assert (caller.kind, caller.id, caller.name, caller.scopes) == ("key", made["id"], "agents", {"work", "submit"})
    assert caller.tenant_id is not None
    assert caller.pool_id is not None
    shown = keys.list_keys(ROOT).items
    assert shown[0]["tenant"] == "alpha"
    assert "digest" not in shown[0]
    assert made["key"] not in str(AuditEvent.objects.filter(action="create_key").values())


@pytest.mark.parametrize(
    "raw", ["", "ef_", "ef__", "ef_x_", "ef_abcdefgh_wrong", "Bearer x", "ef_\0_x", "ef_é_x", "x" * 10_000, "ef_a_b_c"]
)
def test_any_other_text_is_nobody(raw: str) -> None:
    for _ in range(2):  # the second answer comes from the cache
        with pytest.raises(Unauthenticated):
            access.authenticate(raw)


def test_a_wrong_secret_is_nobody_and_pushes_no_good_key_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = keys.create_key(ROOT, name="agents", scopes=["work"])
    monkeypatch.setattr(access, "CACHE_SIZE", 5)
    access.authenticate(made["key"])
    for n in range(20):
        with pytest.raises(Unauthenticated):
            access.authenticate(f"{made['key'][:-3]}{n:03}")
    ApiKey.objects.all().delete()
    assert access.authenticate(made["key"]).name == "agents"  # still cached


def test_a_revoked_key_is_dead_here_at_once_and_elsewhere_after_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    made = keys.create_key(ROOT, name="agents", scopes=["work"])
    access.authenticate(made["key"])
    keys.revoke_key(ROOT, made["id"])
    with pytest.raises(Unauthenticated):
        access.authenticate(made["key"])
    with pytest.raises(NotFound):
        keys.revoke_key(ROOT, made["id"])
    other = keys.create_key(ROOT, name="agents", scopes=["work"])
    access.authenticate(other["key"])
    ApiKey.objects.update(revoked_at=timezone.now())  # by another process
    assert access.authenticate(other["key"])
    start = access.time.monotonic()
    monkeypatch.setattr(access.time, "monotonic", lambda: start + access.CACHE_TTL_S + 0.1)
    with pytest.raises(Unauthenticated):
        access.authenticate(other["key"])


def test_an_expiring_key_is_not_believed_longer_than_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "CACHE_TTL_S", 3600.0)
    made = keys.create_key(ROOT, name="a", scopes=["work"], expires_at=timezone.now() + timedelta(minutes=10))
    access.authenticate(made["key"])
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    start = access.time.monotonic()
    monkeypatch.setattr(access.time, "monotonic", lambda: start + 601)
    with pytest.raises(Unauthenticated):
        access.authenticate(made["key"])


def test_the_use_of_a_key_is_written_at_most_once_a_minute() -> None:
    made = keys.create_key(ROOT, name="agents", scopes=["work"])
    access.authenticate(made["key"])
    first = ApiKey.objects.get().last_used_at
    assert first is not None
    ApiKey.objects.update(last_used_at=timezone.now() - timedelta(seconds=30))
    before = ApiKey.objects.get().last_used_at
    access.forget_keys()
    access.authenticate(made["key"])
    assert ApiKey.objects.get().last_used_at == before
    ApiKey.objects.update(last_used_at=timezone.now() - timedelta(seconds=90))
    access.forget_keys()
    access.authenticate(made["key"])
    assert ApiKey.objects.get().last_used_at > before


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "a\0"}, "name"),
        ({"name": "x" * 121}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "root"]}, "scopes"),
        ({"tenant": "gamma"}, "tenant"),
        ({"tenant": "a\0"}, "tenant"),
        ({"pool": "nowhere"}, "pool"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        keys.create_key(ROOT, **({"name": "a", "scopes": ["read"]} | fields))
    assert [error["field"] for error in refusal.value.errors] == [field]


def test_nobody_grants_more_than_they_have() -> None:
    bound = key("admin", "read", tenant="alpha")
    made = keys.create_key(bound, name="a", scopes=["read"])
    assert made["tenant"] == "alpha"
    with pytest.raises(Forbidden):
        keys.create_key(bound, name="a", scopes=["operate"])
    with pytest.raises(Invalid):
        keys.create_key(bound, name="a", scopes=["read"], tenant="beta")
    foreign = keys.create_key(ROOT, name="b", scopes=["read"], tenant="beta")
    assert [item["name"] for item in keys.list_keys(bound).items] == ["a"]
    with pytest.raises(NotFound):
        keys.revoke_key(bound, foreign["id"])
    for caller in (key("operate", "read"), person("auditor"), person(alpha="member")):
        for verb in (
            lambda who: keys.list_keys(who),
            lambda who: keys.revoke_key(who, foreign["id"]),
            lambda who: keys.create_key(who, name="c", scopes=["read"]),
        ):
            with pytest.raises(Forbidden):
                verb(caller)


@pytest.mark.parametrize("role", ["", "auditor"])
def test_a_departments_admin_manages_the_keys_of_the_department(role: str) -> None:
    dan = person(role, alpha="admin", beta="viewer")
    foreign = keys.create_key(ROOT, name="b", scopes=["read"], tenant="beta")
    keys.create_key(ROOT, name="everything", scopes=["read"])
    made = keys.create_key(dan, name="agents", scopes=["submit", "work", "read", "operate"])
    assert (made["tenant"], access.authenticate(made["key"]).scopes) == ("alpha", keys.TENANT_SCOPES)
    assert [item["name"] for item in keys.list_keys(dan).items] == ["agents"]
    assert [item["name"] for item in keys.list_keys(ROOT, tenant="beta").items] == ["b"]
    rotated = keys.rotate_key(dan, made["id"], 60)
    keys.revoke_key(dan, rotated["id"])
    with pytest.raises(Forbidden):
        keys.create_key(dan, name="more", scopes=["admin"])
    with pytest.raises(Invalid):
        keys.create_key(dan, name="theirs", scopes=["read"], tenant="beta")
    with pytest.raises(Invalid):
        keys.list_keys(dan, tenant="beta")
    for verb in (keys.revoke_key, keys.rotate_key):
        with pytest.raises(NotFound):
            verb(dan, foreign["id"])
    both = person(alpha="admin", beta="admin")
    with pytest.raises(Invalid, match="tenant: must be named"):
        keys.create_key(both, name="whose", scopes=["read"])
    assert keys.create_key(both, name="b2", scopes=["read"], tenant="beta")["tenant"] == "beta"


def test_a_key_of_one_pool_manages_keys_of_that_pool() -> None:
    bound = key("admin", "read", pool="other")
    here, there = (keys.create_key(ROOT, name=slug, scopes=["read"], pool=slug) for slug in ("other", "default"))
    assert [item["name"] for item in keys.list_keys(bound).items] == ["other"]
    with pytest.raises(NotFound):
        keys.revoke_key(bound, there["id"])
    keys.revoke_key(bound, here["id"])


def test_people_have_what_their_roles_say() -> None:
    operator, auditor = person("operator"), person("auditor")
    assert operator.scopes == access.SCOPES
    assert auditor.scopes == {"read"}
    dan = person(alpha="admin", beta="viewer")
    alpha, beta = sorted(dan.memberships)
    assert [access.may(dan, "operate", tenant) for tenant in (alpha, beta)] == [True, False]
    assert [access.may(dan, "read", tenant) for tenant in (alpha, beta, 10**6)] == [True, True, False]
    assert access.visible_tenants(dan) == [alpha, beta]
    assert access.visible_tenants(auditor) is None
    gone = User.objects.create_user("gone@example.org", "secret-secret", role="operator", is_active=False)
    assert not access.may(access.for_user(gone), "read")
    for verb in (access.require, access.require_everywhere):
        with pytest.raises(Forbidden):
            verb(auditor, "operate")
    with pytest.raises(Forbidden):
        access.require_everywhere(dan, "operate")
    with pytest.raises(NotFound):
        access.see_tenant(dan, 10**6)


def test_the_audit_is_seen_by_those_it_concerns_and_by_nobody_changed() -> None:
    seen = audit.list_audit(ROOT, limit=1)
    assert seen.next_cursor
    assert audit.list_audit(ROOT, cursor=seen.next_cursor).items
    targets = {(item["target_kind"], item["target"]) for item in audit.list_audit(person(alpha="viewer")).items}
    assert targets == {("tenant", "alpha")}
    with pytest.raises(Forbidden):
        audit.list_audit(key("submit"))
    with pytest.raises(EvenflowError):
        audit.list_audit(ROOT, cursor="x")
