"""Who is told of alerts and when: waits, groups, worse, repeats, muted ones; by webhook, Slack and e-mail."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.conf import LazySettings
from django.core import mail as outbox

from dispatch.core.alerting import Finding
from dispatch.core.webhooks import ALERTS
from dispatch.errors import Invalid
from dispatch.models import WebhookDelivery
from dispatch.services import alerts, notify, outbound, silences, webhook_delivery, webhooks
from tests import fleet
from tests.services.test_alerts import LATER
from tests.services.world import ROOT, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _listener() -> None:
    make_world()
    webhooks.create_webhook(ROOT, name="ops", url="https://example.com/hook", events=ALERTS)


def finding(subject: str = "class:a", severity: str = "warning", **given: Any) -> Finding:
    of = {"rule": "queue_slo", "subject": subject, "severity": severity, "text": f"{subject} waits.", "pool_id": 1}
    return Finding(**of | given)


def age(seconds: float) -> None:
    back = f"interval '{seconds} s'"
    fleet.sql(f"UPDATE alert SET fired_at = fired_at - {back}, told_at = told_at - {back}")


def told() -> list[tuple[str, int]]:
    """The messages so far, and forget them."""
    found = list(WebhookDelivery.objects.order_by("id").values_list("type", "data__count"))
    WebhookDelivery.objects.all().delete()
    return found


def rounds(*expected: Sequence[tuple[str, int]]) -> None:
    for wanted in expected:
        silences.mute()
        notify.tell()
        assert told() == list(wanted)


def test_what_holds_is_told_once_in_groups_and_again_when_it_is_over() -> None:
    alerts.raise_all([finding("class:a"), finding("class:b"), finding("type:x", rule="breaker")])
    rounds([])
    age(11)
    rounds([("alert.firing", 1), ("alert.firing", 2)], [])
    alerts.resolve("queue_slo", "class:a")
    rounds([("alert.resolved", 1)], [])


def test_what_is_over_before_it_was_told_is_not_told() -> None:
    alerts.raise_all([finding()])
    alerts.resolve("queue_slo", "class:a")
    age(11)
    rounds([])


def test_worse_repeated_and_acknowledged_alerts() -> None:
    alerts.raise_all([finding()])
    age(11)
    rounds([("alert.firing", 1)])
    alerts.raise_all([finding(severity="critical")])
    rounds([("alert.firing", 1)], [])
    age(14_400)
    rounds([("alert.firing", 1)], [])
    alerts.ack(ROOT, alerts.list_alerts(ROOT).items[0]["id"], "on it", LATER)
    rounds([("alert.acknowledged", 1)], [])
    fleet.sql("UPDATE alert SET acked_until = now() - interval '1 s'")
    rounds([("alert.firing", 1)], [])


def test_muted_alerts_are_not_told() -> None:
    alerts.raise_all([finding(), finding("pool:1", rule="no_workers")])
    age(11)
    rounds([("alert.firing", 1)])
    silence = silences.create_silence(ROOT, {"rule": "*"}, "x", LATER)
    alerts.resolve("no_workers", "pool:1")
    rounds([("alert.resolved", 1)], [])
    silences.end_silence(ROOT, silence["id"])
    rounds([("alert.firing", 1)])


def test_slack_gets_a_text_and_markup_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    answer = outbound.Sent(200, 1, "ok", "")
    monkeypatch.setattr(outbound, "post", lambda url, body, headers: sent.append(body) or answer)
    fleet.sql("DELETE FROM webhook")
    webhooks.create_webhook(ROOT, name="slack", url="https://hooks.slack.com/x", events=ALERTS, kind="slack")
    alerts.raise_all([finding(text="<!channel> waits.")])
    age(11)
    notify.tell()
    (message,) = webhook_delivery.take(10, {})
    webhook_delivery.record(message, webhook_delivery.send(message))
    assert sent == [b'{"text": "Firing (warning): &lt;!channel&gt; waits."}']
    assert WebhookDelivery.objects.get().state == 1


def test_a_letter_goes_to_all_its_addresses(settings: LazySettings) -> None:
    fleet.sql("DELETE FROM webhook")
    hook = webhooks.create_webhook(
        ROOT, name="mail", url="mailto:a@example.com,b@example.com", events=ALERTS, kind="email"
    )
    alerts.raise_all([finding("class:a"), finding("class:b")])
    age(11)
    notify.tell()
    (message,) = webhook_delivery.take(10, {})
    assert webhook_delivery.send(message).error == "No mail server is set (EVENFLOW_SMTP_HOST)."
    settings.EMAIL_HOST = "mail.example.com"
    assert webhook_delivery.send(message).arrived
    (letter,) = outbox.outbox
    assert letter.to == ["a@example.com", "b@example.com"]
    assert letter.subject == "[Evenflow] Firing: class:a waits. (2 alerts of queue_slo)"
    assert letter.body.splitlines() == ["Firing (warning): class:a waits.", "Firing (warning): class:b waits."]
    test = webhooks.test_webhook(ROOT, hook["id"])
    assert test["type"] == "webhook.test"


@pytest.mark.parametrize(
    ("kind", "url"),
    [("email", "https://example.com"), ("email", "mailto:nobody"), ("email", "mailto:"), ("slack", "mailto:a@b.org")],
)
def test_a_bad_address_is_refused(kind: str, url: str) -> None:
    with pytest.raises(Invalid) as refused:
        webhooks.create_webhook(ROOT, name="x", url=url, kind=kind)
    assert refused.value.errors[0]["field"] == "url"
    with pytest.raises(Invalid):
        webhooks.create_webhook(ROOT, name="x", url="https://example.com", kind="pigeon")
