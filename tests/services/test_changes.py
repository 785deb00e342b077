"""Ends in order: nothing missed while transactions overlap, nothing told twice, nobody told of others."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from dispatch.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from dispatch.models import Alert, ApiKey, AuditEvent
from dispatch.services import access, alerts, changes, keys
from dispatch.services.cancel import cancel
from tests import fleet
from tests.services.world import ROOT, key, make_world, person, put

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def settled(caller: Any = ROOT, cursor: str | None = None, **more: Any) -> dict[str, Any]:
    time.sleep(0.15)  # ends are told a tenth of a second late
    return changes.list_changes(caller, cursor, **more)


def test_ends_are_told_once_in_order_and_by_pages() -> None:
    ids = [put().id for _ in range(5)]
    for id_ in reversed(ids):
        cancel(ROOT, id_, "over")
    first = settled(limit=3)
    assert ([item["id"] for item in first["items"]], first["more"]) == (ids[:1:-1], True)
    assert first["items"][0]["state"] == "cancelled"
    rest = settled(cursor=first["next_cursor"])
    assert ([item["id"] for item in rest["items"]], rest["more"]) == (ids[1::-1], False)
    nothing = settled(cursor=rest["next_cursor"])
    assert (nothing["items"], nothing["next_cursor"] is not None) == ([], True)
    again = put().id
    cancel(ROOT, again)
    assert [item["id"] for item in settled(cursor=nothing["next_cursor"])["items"]] == [again]
    for cursor in ("x", keys._random(20)):
        with pytest.raises(Invalid):
            changes.list_changes(ROOT, cursor)


def test_an_end_that_commits_late_is_not_missed() -> None:
    slow, fast = put().id, put().id
    began, go = threading.Event(), threading.Event()

    def late() -> None:
        try:
            with transaction.atomic():
                cancel(ROOT, slow)
                began.set()
                go.wait(10)
        finally:
            connection.close()

    thread = threading.Thread(target=late)
    thread.start()
    assert began.wait(10)
    cancel(ROOT, fast)
    early = settled()
    assert early["items"] == [], "the later end waits for the earlier one, which may still commit"
    go.set()
    thread.join(10)
    told = settled(cursor=early["next_cursor"])
    assert [item["id"] for item in told["items"]] == [slow, fast]


def test_a_tenant_hears_of_its_own_only() -> None:
    mine, foreign = put().id, put(tenant="beta").id
    for id_ in (mine, foreign):
        cancel(ROOT, id_)
    for caller in (key("read", tenant="alpha"), person(alpha="viewer")):
        assert [item["id"] for item in settled(caller)["items"]] == [mine]
        for tenant in ("beta", "nobody"):
            with pytest.raises(Invalid) as refused:
                changes.list_changes(caller, tenant=tenant)
            assert refused.value.errors == [{"field": "tenant", "message": "there is no such tenant"}]
    assert [item["id"] for item in settled(tenant="beta")["items"]] == [foreign]
    assert settled(key("read", pool="other"))["items"] == []
    with pytest.raises(Forbidden):
        changes.list_changes(key("work"))


# Keys


def test_a_rotated_key_works_beside_the_new_one_for_the_overlap() -> None:
    old = keys.create_key(ROOT, name="robot", scopes=["work", "read"], tenant="alpha")
    new = keys.rotate_key(ROOT, old["id"], 60)
    assert (new["name"], new["scopes"], new["tenant"], new["replaces"]) == (
        "robot",
        ["read", "work"],
        "alpha",
        old["id"],
    )
    assert access.authenticate(new["key"]).tenant_id == access.authenticate(old["key"]).tenant_id
    left = new["old_expires_at"] - datetime.now(UTC)
    assert timedelta(seconds=50) < left < timedelta(seconds=61)
    once_more = keys.rotate_key(ROOT, old["id"], 3600)
    assert once_more["old_expires_at"] == new["old_expires_at"], "an overlap is never prolonged"
    keys.rotate_key(ROOT, new["id"])
    with pytest.raises(Unauthenticated):
        access.authenticate(new["key"])
    with pytest.raises(NotFound):
        keys.rotate_key(ROOT, new["id"])
    assert old["key"] not in str(list(AuditEvent.objects.filter(action="rotate_key").values()))


def test_who_may_rotate() -> None:
    foreign = keys.create_key(ROOT, name="b", scopes=["read"], tenant="beta")
    strong = keys.create_key(ROOT, name="a", scopes=["operate"], tenant="alpha")
    for id_ in (foreign["id"], 0, 10**12, 2**63):
        with pytest.raises(NotFound):
            keys.rotate_key(key("admin", "read", tenant="alpha"), id_)
    with pytest.raises(Forbidden):
        keys.rotate_key(key("admin", "read", tenant="alpha"), strong["id"])
    with pytest.raises(Forbidden):
        keys.rotate_key(key("read"), foreign["id"])
    for overlap in (-1, float("nan"), 31 * 86400, True):
        with pytest.raises(Invalid):
            keys.rotate_key(ROOT, foreign["id"], overlap)
    assert ApiKey.objects.count() == 2


# Alerts


def alert(**fields: Any) -> int:
    given = {"rule": "stalled", "subject": f"s{Alert.objects.count()}", "severity": "warning", "text": "x"} | fields
    return int(Alert.objects.create(**given).pk)


def test_alerts_are_listed_and_acknowledged() -> None:
    first, second = alert(), alert(rule="drift", severity="critical")
    closed = alert(resolved_at=datetime.now(UTC))
    assert [one["id"] for one in alerts.list_alerts(ROOT).items] == [closed, second, first]
    assert [one["id"] for one in alerts.list_alerts(ROOT, "open", severity="critical").items] == [second]
    assert [one["state"] for one in alerts.list_alerts(ROOT, "resolved").items] == ["resolved"]
    page = alerts.list_alerts(ROOT, limit=2)
    assert [one["id"] for one in alerts.list_alerts(ROOT, limit=2, cursor=page.next_cursor).items] == [first]
    until = datetime.now(UTC) + timedelta(hours=1)
    seen = alerts.ack(ROOT, first, "on it", until)
    assert (seen["state"], seen["acked_by"], seen["note"], seen["acked_until"]) == (
        "acknowledged",
        "test",
        "on it",
        until,
    )
    Alert.objects.filter(pk=first).update(acked_until=datetime.now(UTC) - timedelta(seconds=1))
    assert alerts.list_alerts(ROOT, rule="stalled").items[-1]["state"] == "firing"
    with pytest.raises(Conflict):
        alerts.ack(ROOT, closed, "late")
    for field, note, end in (("note", " ", None), ("until", "x", datetime.now(UTC) - timedelta(seconds=1))):
        with pytest.raises(Invalid) as refused:
            alerts.ack(ROOT, second, note, end)
        assert refused.value.errors[0]["field"] == field
    assert AuditEvent.objects.get(action="ack_alert").reason == "on it"


def test_a_tenant_sees_and_acknowledges_its_own_alerts_only() -> None:
    alpha_id = fleet.value("SELECT id FROM tenant WHERE slug = 'alpha'")
    beta_id = fleet.value("SELECT id FROM tenant WHERE slug = 'beta'")
    mine, foreign, fleetwide = alert(tenant_id=alpha_id), alert(tenant_id=beta_id), alert()
    dan = person(alpha="admin")
    for caller in (dan, key("read", "operate", tenant="alpha")):
        assert [one["id"] for one in alerts.list_alerts(caller).items] == [mine]
        for id_ in (foreign, fleetwide, 10**12, 2**63):
            with pytest.raises(NotFound) as missing:
                alerts.ack(caller, id_, "x")
            assert missing.value.detail == alerts.MISSING
        assert alerts.ack(caller, mine, "seen")["state"] == "acknowledged"
    with pytest.raises(Forbidden):
        alerts.ack(person(alpha="viewer"), mine, "x")
    with pytest.raises(Forbidden):
        alerts.ack(person("auditor", alpha="viewer"), mine, "x")
