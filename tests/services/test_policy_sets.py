"""Edits together, all or nothing; versions of the whole policy, and the way back to one."""

from typing import Any

import pytest

from dispatch.errors import Forbidden, Invalid, NotFound, VersionConflict
from dispatch.models import AuditEvent
from dispatch.services import policy, policy_sets
from tests.services.world import ROOT, key, make_world, person

# Each edit is a transaction of its own, with its own moment: that is what a version is.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def edit(kind: str, slug: str, **changes: Any) -> int:
    version = policy.get(ROOT, kind, slug)["version"]
    policy.patch(ROOT, kind, slug, version, changes, "test")
    return policy_sets.newest()


def change(kind: str, slug: str, version: int = 1, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "slug": slug, "version": version, "set": fields}


def value(kind: str, slug: str, field: str) -> Any:
    return policy.get(ROOT, kind, slug)[field]


def test_one_restore_brings_everything_back() -> None:
    policy.create(ROOT, "tool", "old", {"max": 4})
    good = edit("class", "critical", weight=7, max_wait_s=30)
    edit("class", "critical", weight=1, max_wait_s=None)
    edit("tenant", "alpha", max=3, cost_budget=5)
    edit("tool", "crm", max=2)
    policy.delete(ROOT, "tool", "old")
    policy.create(ROOT, "tool", "new", {"max": 9})
    edit("class", "background", paused=True)
    seen = policy_sets.newest()
    done = policy_sets.restore(ROOT, good, "that was a mistake", seen)
    assert sorted(done["changed"]) == ["class/critical", "tenant/alpha", "tool/crm"]
    assert (done["revived"], done["made_since"]) == (["tool/old"], ["tool/new"])
    assert (value("class", "critical", "weight"), value("class", "critical", "max_wait_s")) == (7, 30)
    assert (value("tenant", "alpha", "max"), value("tenant", "alpha", "cost_budget")) == (None, None)
    assert (value("tool", "crm", "max"), value("tool", "old", "max"), value("tool", "new", "max")) == (None, 4, 9)
    assert value("class", "background", "paused"), "a pause is no setting"
    event = AuditEvent.objects.get(action="restore_policy")
    assert (event.target, event.reason) == (str(good), "that was a mistake")
    assert done["version"] > seen
    again = policy_sets.restore(ROOT, good, "again", done["version"])
    assert again["changed"] == again["revived"] == []


def test_the_way_back_finds_an_order_that_the_rules_permit() -> None:
    edit("pool", "default", budget=10)
    good = edit("class", "critical", min=8)
    edit("class", "critical", min=1)
    edit("class", "background", min=9)
    policy_sets.restore(ROOT, good, "back")
    assert (value("class", "critical", "min"), value("class", "background", "min")) == (8, 0)


def test_versions_are_listed_and_checked() -> None:
    first = edit("class", "critical", weight=7)
    second = edit("class", "critical", weight=8)
    page = policy_sets.list_versions(ROOT, limit=2)
    assert [item["version"] for item in page.items] == [second, first]
    assert (page.items[0]["kind"], page.items[0]["slug"], page.items[0]["after"]["weight"]) == ("class", "critical", 8)
    assert policy_sets.list_versions(ROOT, cursor=page.next_cursor).items
    with pytest.raises(VersionConflict):
        policy_sets.restore(ROOT, first, "x", seen=first)
    for version in (0, -1, 2**70, 10**9):
        with pytest.raises(NotFound):
            policy_sets.restore(ROOT, version, "x")
    with pytest.raises(Invalid, match="reason"):
        policy_sets.restore(ROOT, first, " ")
    for caller in (person(alpha="admin"), person("auditor"), key("operate", tenant="alpha"), key("read")):
        with pytest.raises(Forbidden):
            policy_sets.restore(caller, first, "x")
    with pytest.raises(Forbidden):
        policy_sets.list_versions(person(alpha="admin"))


def test_a_set_is_made_as_a_whole_or_not_at_all() -> None:
    before = policy_sets.newest()
    good = [change("class", "critical", weight=9), change("tenant", "alpha", max=4)]
    tried = policy_sets.apply(ROOT, good, "x", dry_run=True)
    assert (tried["version"], value("class", "critical", "weight")) == (before, 6)
    made = policy_sets.apply(ROOT, good, "together")
    assert made["version"] > before
    assert (value("class", "critical", "weight"), value("tenant", "alpha", "max")) == (9, 4)
    with pytest.raises(Invalid, match=r"changes\[1\]\.weight"):
        policy_sets.apply(ROOT, [change("tenant", "beta", max=4), change("class", "background", weight=-1)], "x")
    with pytest.raises(VersionConflict):
        policy_sets.apply(ROOT, [change("tenant", "beta", max=4), change("class", "critical", 1, weight=2)], "x")
    assert value("tenant", "beta", "max") is None
    for caller in (person(alpha="admin"), key("operate", tenant="alpha")):
        with pytest.raises(Forbidden):
            policy_sets.apply(caller, good, "x")
    with pytest.raises(Invalid):
        policy_sets.apply(ROOT, [], "x")
