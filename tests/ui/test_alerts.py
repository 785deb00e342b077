"""The page of alerts: states, acknowledging, silences, rules; announced once; texts stay texts."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dispatch.core.alerting import Finding
from dispatch.live.cells import alerts as cells
from dispatch.models import Alert, AlertRule, AuditEvent, QueueSample, Silence, WorkClass
from dispatch.services import alerts, silences

Browse = Callable[..., Client]
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def alert(pool: None) -> int:
    """One firing alert about a class."""
    work_class = WorkClass.objects.get()
    evidence = {"oldest_age_s": 754, "queued": 12, "deep": {"share": 0.25}}
    finding = Finding(
        rule="queue_slo",
        subject="class:interactive",
        severity="critical",
        text=f"interactive waits {EVIL}",
        evidence=evidence,
        class_id=work_class.pk,
        pool_id=work_class.pool_id,
    )
    alerts.raise_all([finding])
    return Alert.objects.get().pk


def test_a_firing_alert_is_shown_with_evidence_and_link(alert: int, browse: Browse) -> None:
    text = browse().get("/alerts").content.decode()
    assert "Queue SLO" in text and 'href="/queues/interactive"' in text
    assert "12 m 34 s" in text and "deep share" in text and "0.25" in text
    assert EVIL not in text and "&lt;img src=x" in text
    assert '<span class="badge" data-k="badge.alerts">1</span>' in text
    assert (
        "Nothing fires" not in text
        and "None is acknowledged" in browse("auditor").get("/alerts?state=acknowledged").content.decode()
    )


def test_acknowledging_keeps_a_note_and_an_end(alert: int, browse: Browse) -> None:
    client = browse()
    form = {"once": "a", "note": "Restarting the host", "hold": "3600"}
    text = client.post(f"/alerts/{alert}/ack", form, follow=True).content.decode()
    assert "Acknowledged: Queue SLO until" in text and "Nothing fires" in text
    found = Alert.objects.get()
    assert (found.acked_by, found.note) == ("operator-x@example.net", "Restarting the host") and found.acked_until
    client.post(f"/alerts/{alert}/ack", form)
    assert AuditEvent.objects.filter(action="ack_alert", refused=False).count() == 1
    text = client.get("/alerts?state=acknowledged").content.decode()
    assert "Restarting the host" in text
    refused = client.post(f"/alerts/{alert}/ack", {"once": "b", "note": ""}, follow=True).content.decode()
    assert "note: " in refused
    auditor = browse("auditor")
    assert "Acknowledge</summary>" not in auditor.get("/alerts?state=acknowledged").content.decode()
    auditor.post(f"/alerts/{alert}/ack", {"once": "c", "note": "x"})
    assert Alert.objects.get().note == "Restarting the host"
    alerts.resolve("queue_slo", "class:interactive")
    assert "Queue SLO" in client.get("/alerts?state=resolved").content.decode()


def test_a_silence_is_made_and_ended(alert: int, browse: Browse) -> None:
    client = browse()
    form = {"once": "s", "matcher": "rule=queue_* class=interactive", "note": "quarter end", "hold": "14400"}
    text = client.post("/alerts/silences", form, follow=True).content.decode()
    assert "firing, silenced" in text and "rule=queue_*" in text and "quarter end" in text
    silence = Silence.objects.get()
    assert silence.matcher == {"rule": "queue_*", "class": "interactive"}
    for bad in ({"matcher": "nonsense"}, {"hold": ""}, {"matcher": "colour=red"}, {"note": ""}):
        client.post("/alerts/silences", form | {"once": str(bad)} | bad)
    assert Silence.objects.count() == 1
    client.post(f"/alerts/silences/{silence.pk}/end", {"once": "e"})
    assert "Nothing is silenced" in client.get("/alerts").content.decode()
    assert silences.list_silences(bystander(), 10).items[0]["state"] == "over"


def bystander() -> Any:
    from dispatch.services import access

    return access.system("test")


def test_a_rule_is_changed_with_a_reason(pool: None, browse: Browse) -> None:
    client = browse()
    text = client.get("/alerts/rules?rule=queue_slo").content.decode()
    field = re.search(
        r'id="t-(\w+)" name="\w+" inputmode="numeric" autocomplete="off" value="" placeholder="(\d+)"', text
    )
    assert field and "Save rule" in text
    assert "of <b>100 %</b>" in text and "window <b>1 m 00 s</b>" in text and "cycle <b>1000 ms</b>" in text
    form = {"once": "r", "version": "0", "enabled": "1", field[1]: field[2], "reason": "as it was"}
    assert "Rule Queue SLO saved" in client.post("/alerts/rules/queue_slo", form, follow=True).content.decode()
    assert AlertRule.objects.get().thresholds == {field[1]: int(field[2])}
    wrong = client.post(
        "/alerts/rules/queue_slo", form | {"once": "w", "version": "1", field[1]: "abc"}
    ).content.decode()
    assert 'value="abc"' in wrong and 'value="as it was"' in wrong and "fires: must be a whole number" in wrong
    stale = client.post("/alerts/rules/queue_slo", form | {"once": "t"}, follow=True).content.decode()
    assert "has version 1 by now" in stale
    bad = client.post("/alerts/rules/queue_slo", form | {"once": "u", "version": "1", field[1]: "x"}, follow=True)
    assert "must be a whole number" in bad.content.decode()
    off = {"once": "v", "version": "1", "reason": "noisy"}
    client.post("/alerts/rules/queue_slo", off)
    assert not AlertRule.objects.get().enabled
    assert "Only operators change rules" in browse("auditor").get("/alerts/rules").content.decode()


def test_the_newest_loud_alert_is_the_one_announced() -> None:
    def one(number: int, **fields: Any) -> dict[str, Any]:
        return {"id": number, "state": "firing", "severity": "warning", "muted": None, "text": f"t{number}"} | fields

    items = [one(1), one(2), one(3, muted="silenced"), one(4, state="acknowledged"), one(5, severity="info")]
    found = cells.frame({"alerts": {"items": items}})
    assert (found["alerts.newest"], found["alerts.text"]) == (2, "Alert: t2")
    assert cells.frame({})["alerts.newest"] == 0
    assert found["alerts.version"] != cells.frame({"alerts": {"items": items[1:]}})["alerts.version"]


def test_a_rule_is_tried_on_the_past_and_nothing_is_saved(pool: None, browse: Browse) -> None:
    work_class = WorkClass.objects.get()
    WorkClass.objects.update(slo_queue_s=60)
    now = timezone.now()
    for of, age in ((work_class.pk, 90.0), (None, None)):
        for minutes in range(1, 20):
            QueueSample.objects.create(
                at=now - timedelta(minutes=minutes),
                step=10,
                pool_id=work_class.pool_id,
                class_id=of,
                queued=3,
                running=0,
                oldest_age_s=age if minutes < 10 else None,
                dispatched=0,
            )
    client = browse()
    page = client.get("/alerts/rules?rule=queue_slo").content.decode()
    assert 'formaction="/alerts/rules/queue_slo/try#tried"' in page and "would have" not in page
    tried = client.post("/alerts/rules/queue_slo/try", {"span": "3600"}).content.decode()
    assert "It would have fired 1 time" in tried and f"class:{work_class.slug}" in tried
    higher = client.post("/alerts/rules/queue_slo/try", {"span": "3600", "of_percent": "200"}).content.decode()
    assert "It would not have fired" in higher and 'value="200"' in higher
    bad = client.post("/alerts/rules/queue_slo/try", {"of_percent": "<b>"}).content.decode()
    assert "must be a whole number" in bad and "&lt;b&gt;" in bad
    assert client.post("/alerts/rules/nothing/try").status_code == 404
    assert not AlertRule.objects.exists()
