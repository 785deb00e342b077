"""Groups of dead letters: their states, what people decide about them, and who may."""

from typing import Any

import pytest

from dispatch.core.triage import Group, Mark, state
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.models import AuditEvent
from dispatch.services import triage
from tests import fleet
from tests.services.test_bulk import dead
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db


def happened(count: int = 5, first: float = 50_000, last: float = 600, steps: tuple[int, ...] = (0,) * 24) -> Group:
    return Group(count=count, first_age_s=first, last_age_s=last, steps=steps)


@pytest.mark.parametrize(
    ("group", "mark", "word"),
    [
        (happened(), Mark(), "steady"),
        (happened(last=1801), Mark(), "quiet"),
        (happened(first=3599), Mark(), "new"),
        (happened(), Mark(assignee="olga"), "assigned"),
        (happened(steps=(1, 1, 1, 0, *[0] * 20)), Mark(assignee="olga"), "rising"),
        (happened(steps=(1, 1, 0, 0, *[0] * 20)), Mark(), "steady"),
        (happened(last=600), Mark(status="resolved", age_s=599), "resolved"),
        (happened(last=600), Mark(status="resolved", age_s=601), "came_back"),
        (happened(count=5), Mark(status="ignored", above_total=5), "ignored"),
        (happened(count=6), Mark(status="ignored", above_total=5), "ignore_ended"),
        (happened(steps=(2, 1, *[0] * 22)), Mark(status="ignored", above_per_h=2), "ignore_ended"),
        (happened(steps=(2, 0, 0, 0, 9, *[0] * 19)), Mark(status="ignored", above_per_h=2), "ignored"),
    ],
)
def test_the_state_of_a_group(group: Group, mark: Mark, word: str) -> None:
    assert state(group, mark) == word


@pytest.fixture
def letters() -> dict[str, Any]:
    make_world()
    mine, foreign, auth = dead(3), dead(2, "beta"), dead(1, fingerprint="auth")
    plain = dead(1, fingerprint="")
    fleet.sql("UPDATE task SET finished_at = now() - interval '2 hours' WHERE id = ANY (%s)", mine)
    fleet.sql("UPDATE task SET finished_at = finished_at - interval '30 seconds' WHERE id = ANY (%s)", auth)
    fleet.sql("UPDATE task SET reason = 'expired', error = NULL WHERE id = ANY (%s)", plain)
    return {"mine": mine, "foreign": foreign, "auth": auth}


def test_groups_count_what_the_caller_sees(letters: dict[str, Any]) -> None:
    found = triage.groups(ROOT)
    assert [(one["fingerprint"], one["count"]) for one in found["groups"]] == [("timeout", 5), ("auth", 1), ("none", 1)]
    assert (found["total"], found["capped"]) == (7, False)
    [timeout] = [one for one in found["groups"] if one["fingerprint"] == "timeout"]
    assert timeout["tenants"] == [("alpha", 3), ("beta", 2)] and timeout["attempts"] == (3, 3)
    assert (timeout["steps"][0], timeout["steps"][8], timeout["new_1h"]) == (2, 3, 2)
    assert found["matrix"] == [("critical", [4, 0, 3, 0, 0])]
    alpha = triage.groups(key("read", tenant="alpha"))
    assert [(one["fingerprint"], one["count"]) for one in alpha["groups"]] == [("timeout", 3), ("auth", 1), ("none", 1)]
    assert triage.group(ROOT, "none")["reasons"] == [("expired", 1)]
    with pytest.raises(NotFound):
        triage.group(key("read", tenant="beta"), "auth")


def test_a_decision_is_kept_audited_and_undone_by_what_happens(letters: dict[str, Any]) -> None:
    olga = person("operator")
    saved = triage.decide(olga, "auth", {"status": "resolved", "note": "fixed in 4.2.1", "assignee": olga.name})
    assert (saved["status"], saved["version"]) == ("resolved", 2)
    entry = AuditEvent.objects.get(action="triage_dead_group")
    assert (entry.target, entry.after["status"], entry.reason) == ("auth", "resolved", "fixed in 4.2.1")
    assert triage.group(ROOT, "auth")["state"] == "resolved"
    with pytest.raises(Conflict):
        triage.decide(olga, "auth", {"status": "open"}, version=1)
    fleet.sql("UPDATE dead_group SET status_at = now() - interval '1 minute'")
    assert triage.group(ROOT, "auth")["state"] == "came_back"
    assert triage.decide(olga, "auth", {"status": "resolved"})["status"] == "resolved"
    assert triage.group(ROOT, "auth")["state"] == "resolved", "said again, it holds from now on"
    triage.decide(olga, "auth", {"status": "ignored", "ignore_above_total": 0})
    assert triage.group(ROOT, "auth")["state"] == "ignore_ended"


def test_only_operators_decide_and_departments_do_not_read_it(letters: dict[str, Any]) -> None:
    triage.decide(ROOT, "timeout", {"status": "ignored", "note": "known to beta"})
    admin = person(alpha="admin")
    assert triage.group(admin, "timeout")["mark"] is None
    for caller in (admin, person("auditor"), key("operate", tenant="alpha"), key("read")):
        with pytest.raises(Forbidden):
            triage.decide(caller, "timeout", {"status": "open"})
    for field, value in (
        ("status", "gone"),
        ("ignore_above_per_h", -1),
        ("ignore_above_total", 1.5),
        ("assignee", "nobody@example.org"),
        ("note", "x" * 2001),
    ):
        with pytest.raises(Invalid) as refused:
            triage.decide(ROOT, "timeout", {field: value})
        assert [one["field"] for one in refused.value.errors] == [field]
