"""The audit: filters, sheets without formulas, refusals of people stored and of agents counted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.core import sheets
from dispatch.errors import Forbidden, Invalid
from dispatch.models import AuditEvent, Tenant
from dispatch.services import audit, keys, policy, requeue
from tests import fleet
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()
    alpha = Tenant.objects.get(slug="alpha").pk
    audit.record(person("operator"), "patch_tenant", "tenant", "alpha", {"max": 1}, {"max": 2}, "=1+1", alpha)
    audit.record(key("operate"), "requeue", "task", 7, tenant_id=alpha, refused=True)


def found(**filters: Any) -> list[str]:
    return [item["action"] for item in audit.list_audit(ROOT, filters=filters).items]


def test_filters_are_all_met() -> None:
    assert found(action="requeue") == ["requeue"]
    assert found(target_kind="tenant", target="alpha") == ["patch_tenant", "create_tenant"]
    assert found(target_kind="tenant", target="alpha", actor="test") == ["create_tenant"]
    assert found(tenant="alpha", only="refused") == ["requeue"]
    assert found(tenant="beta") == ["create_tenant"]
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert found(since=soon) == []
    assert len(found(until=soon)) == AuditEvent.objects.count()


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"action": "a\0"}, "action"),
        ({"since": datetime(2026, 1, 1)}, "since"),
        ({"tenant": "gamma"}, "tenant"),
        ({"only": "yes"}, "only"),
    ],
)
def test_filters_that_make_no_sense_are_refused(filters: dict[str, Any], field: str) -> None:
    for verb in (lambda: found(**filters), lambda: audit.export(ROOT, filters)):
        with pytest.raises(Invalid) as refusal:
            verb()
        assert [error["field"] for error in refusal.value.errors] == [field]


def test_another_tenants_name_is_a_missing_one_and_its_entries_are_not_exported() -> None:
    bea = person(beta="viewer")
    with pytest.raises(Invalid, match="there is no such tenant"):
        audit.list_audit(bea, filters={"tenant": "alpha"})
    assert [row[6] for row in audit.export(bea)] == ["beta"]
    with pytest.raises(Forbidden):
        audit.export(key("submit"))


def test_a_sheet_has_every_entry_over_any_number_of_pages_and_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatch.services.paging.MAX_LIMIT", 3)
    lines = list(sheets.lines(audit.EXPORTED, audit.export(ROOT)))
    assert len(lines) == AuditEvent.objects.count() + 1
    assert lines[0].startswith("id,at,actor_kind")
    (line,) = [line for line in lines if "patch_tenant" in line]
    assert ",'=1+1," in line
    assert '"{""max"": 1}"' in line


def test_refusals_of_people_and_operators_are_stored_and_those_of_agents_counted() -> None:
    (task,) = fleet.put()
    before = audit.refused_agents["requeue"]
    for caller in (person(alpha="viewer"), key("admin", "read")):
        with pytest.raises(Forbidden):
            requeue.requeue(caller, task, "again")
    assert found(action="requeue", target_kind="task", target=str(task)) == ["requeue", "requeue"]
    with pytest.raises(Forbidden):
        requeue.requeue(key("work", "read"), task, "again")
    assert len(found(action="requeue", target_kind="task", target=str(task))) == 2
    assert audit.refused_agents["requeue"] == before + 1


def test_every_command_of_an_operator_leaves_who_what_why_and_which_request() -> None:
    made = keys.create_key(ROOT, name="x", scopes=["read"])
    keys.revoke_key(ROOT, made["id"])
    policy.patch(ROOT, "tool", "crm", 1, {"max": 2}, "busy")
    newest = audit.list_audit(ROOT, limit=1).items[0]
    assert (newest["actor_name"], newest["action"], newest["target"], newest["reason"]) == (
        *("test", "patch_tool", "crm", "busy"),
    )
    assert (newest["before"]["max"], newest["after"]["max"]) == (None, 2)
    assert made["key"] not in str(list(AuditEvent.objects.values()))
