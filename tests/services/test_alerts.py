"""The life of an alert: raised once, acknowledged until it is worse, muted, resolved; silences, and who makes them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.core.alerting import Finding
from dispatch.errors import Conflict, Forbidden, Invalid, NotFound
from dispatch.models import Alert, AuditEvent
from dispatch.services import alerts, pulse, silences
from tests import fleet
from tests.services.world import ROOT, key, make_world, person

pytestmark = pytest.mark.django_db
LATER = datetime.now(UTC) + timedelta(hours=1)


def finding(subject: str = "class:background", severity: str = "warning", **given: Any) -> Finding:
    return Finding(**{"rule": "queue_slo", "subject": subject, "severity": severity, "text": "It waits."} | given)


def only(state: str | None = None) -> dict[str, Any]:
    (found,) = alerts.list_alerts(ROOT, state).items
    return found


def test_a_finding_is_raised_once_and_again_after_its_end() -> None:
    assert alerts.raise_all([finding(), finding()]) == [finding()]
    assert alerts.raise_all([finding(text="It waits longer.")]) == []
    assert (only()["text"], only()["state"]) == ("It waits longer.", "firing")
    assert alerts.resolve("queue_slo", "class:background") == 1
    assert alerts.resolve("queue_slo", "class:background") == 0
    assert alerts.raise_all([finding()]) == [finding()]
    assert [one["state"] for one in alerts.list_alerts(ROOT).items] == ["firing", "resolved"]


def test_settling_resolves_what_is_not_found_any_more() -> None:
    pool = fleet.pool_id()
    alerts.raise_all([finding("class:a"), finding("class:b", pool_id=pool), finding(rule="breaker")])
    alerts.settle("queue_slo", [finding("class:c", pool_id=pool)], pool_id=pool)
    open_ones = sorted(alert.subject for alert in Alert.objects.filter(resolved_at=None, rule="queue_slo"))
    assert open_ones == ["class:a", "class:c"]
    alerts.settle("queue_slo", [])
    assert [alert.rule for alert in Alert.objects.filter(resolved_at=None)] == ["breaker"]


def test_an_acknowledged_alert_fires_again_when_it_gets_worse() -> None:
    alerts.raise_all([finding()])
    alerts.ack(ROOT, only()["id"], "on it")
    assert only("acknowledged")["note"] == "on it"
    alerts.raise_all([finding(severity="critical")])
    assert only("firing")["severity"] == "critical"
    alerts.ack(ROOT, only()["id"], "still on it")
    alerts.raise_all([finding(severity="warning")])
    assert only("acknowledged")["id"] == alerts.get_alert(ROOT, only()["id"])["id"]


def test_a_silence_mutes_what_matches_until_it_ends() -> None:
    alerts.raise_all([finding(), finding(rule="breaker")])
    made = silences.create_silence(ROOT, {"rule": "queue_*"}, "deploy", LATER)
    assert (made["state"], made["author"]) == ("active", "test")
    assert {one["rule"]: one["muted"] for one in alerts.list_alerts(ROOT).items} == {
        "queue_slo": "silenced",
        "breaker": None,
    }
    assert silences.mute() == 0
    silences.end_silence(ROOT, made["id"])
    assert {one["muted"] for one in alerts.list_alerts(ROOT).items} == {None}
    with pytest.raises(Conflict):
        silences.end_silence(ROOT, made["id"])
    assert [one["state"] for one in silences.list_silences(ROOT).items] == ["over"]
    assert set(AuditEvent.objects.values_list("action", flat=True)) == {"create_silence", "end_silence"}


def test_a_pending_silence_begins_by_itself_and_an_old_one_ends() -> None:
    alerts.raise_all([finding()])
    soon = LATER - timedelta(minutes=1)
    made = silences.create_silence(ROOT, {"subject": "class:background"}, "night", LATER, soon)
    assert (made["state"], only()["muted"]) == ("pending", None)
    fleet.sql("UPDATE silence SET starts_at = now()")
    assert (silences.mute(), only()["muted"]) == (1, "silenced")
    fleet.sql("UPDATE silence SET ends_at = now()")
    assert (silences.mute(), only()["muted"]) == (1, None)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("matcher", {"matcher": {}}),
        ("matcher.colour", {"matcher": {"colour": "red"}}),
        ("matcher.severity", {"matcher": {"severity": "loud"}}),
        ("matcher.rule", {"matcher": {"rule": "a\0"}}),
        ("matcher.tenant", {"matcher": {"tenant": "nobody"}}),
        ("note", {"note": " "}),
        ("until", {"until": datetime.now(UTC) - timedelta(seconds=1)}),
        ("starts_at", {"starts_at": LATER}),
    ],
)
def test_a_bad_silence_names_its_field(field: str, given: Mapping[str, Any]) -> None:
    good = {"matcher": {"rule": "x"}, "note": "x", "until": LATER}
    with pytest.raises(Invalid) as refused:
        silences.create_silence(ROOT, **(good | given))
    assert [error["field"] for error in refused.value.errors] == [field]


def test_a_tenant_silences_its_own_alerts_only() -> None:
    make_world()
    dan, foreign = person(alpha="admin"), key("read", "operate", tenant="beta")
    with pytest.raises(Forbidden):
        silences.create_silence(dan, {"rule": "x"}, "x", LATER)
    with pytest.raises(Invalid):
        silences.create_silence(foreign, {"tenant": "alpha"}, "x", LATER)
    with pytest.raises(Forbidden):
        silences.create_silence(key("read", "operate", pool="other"), {"rule": "x"}, "x", LATER)
    with pytest.raises(Forbidden):
        silences.create_silence(person(alpha="viewer"), {"tenant": "alpha"}, "x", LATER)
    mine = silences.create_silence(dan, {"tenant": "alpha"}, "x", LATER)
    everywhere = silences.create_silence(ROOT, {"rule": "x"}, "x", LATER)
    assert [one["id"] for one in silences.list_silences(dan).items] == [mine["id"]]
    for caller, silence_id in ((foreign, mine["id"]), (dan, everywhere["id"]), (ROOT, 2**63)):
        with pytest.raises(NotFound):
            silences.end_silence(caller, silence_id)
    silences.end_silence(dan, mine["id"])


def test_alerts_whose_ground_is_gone_are_resolved() -> None:
    make_world()
    (task,) = fleet.put(1)
    worker = fleet.join().worker_id
    alerts.raise_all(
        [
            finding("pool:1", rule="web_outage", pool_id=fleet.pool_id()),
            finding(f"worker:{worker}", rule="quarantine"),
            finding(f"task:{task}", rule="max_handbacks", evidence={"task_id": task}),
        ]
    )
    fleet.sql("UPDATE task SET state = 3")
    fleet.sql("UPDATE worker SET quarantined = true")
    fleet.sql("UPDATE alert SET seen_at = now() - interval '2 minutes'")
    assert alerts.end_stale() == 0
    pulse.register_process("web", {})
    assert alerts.end_stale() == 0, "it is back, but not for a whole TTL"
    fleet.sql("UPDATE process SET up_since = now() - interval '31 s'")
    assert alerts.end_stale() == 1
    fleet.sql("DELETE FROM demand")
    fleet.sql("DELETE FROM worker_session")
    fleet.sql("DELETE FROM worker")
    assert alerts.end_stale() == 1
    fleet.sql("UPDATE task SET state = 1")
    assert alerts.end_stale() == 1


def test_alerts_that_are_long_over_are_forgotten() -> None:
    alerts.raise_all([finding("class:a"), finding("class:b"), finding("class:c")])
    alerts.resolve("queue_slo", "class:a", "class:b")
    fleet.sql("UPDATE alert SET resolved_at = now() - interval '91 days' WHERE subject = 'class:a'")
    assert alerts.prune() == 1
    assert alerts.prune() == 0
    assert sorted(one["subject"] for one in alerts.list_alerts(ROOT).items) == ["class:b", "class:c"]
