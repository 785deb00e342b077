"""Alerts by e-mail: who wanted them and may see them gets one mail, nobody else."""

from typing import Any

import pytest
from django_q.models import OrmQ

from dispatch.models import Tenant, User
from dispatch.services import alert_mail
from tests.services.world import make_world, person

pytestmark = pytest.mark.django_db

ALERTS = [{"severity": "warning", "text": "One queue is late"}, {"severity": "critical", "text": "No worker is live"}]


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()
    for role, inside in (("operator", {}), ("", {"alpha": "viewer"}), ("", {"beta": "admin"}), ("", {})):
        person(role, **inside)
    User.objects.update(alert_mail=["critical"])


def test_only_those_who_may_see_an_alert_get_it() -> None:
    alpha = Tenant.objects.get(slug="alpha").pk
    everybody = list(User.objects.order_by("pk").values_list("email", flat=True))
    assert alert_mail.addresses(["critical"], None) == everybody[:1]
    assert alert_mail.addresses(["critical"], alpha) == everybody[:2]
    assert alert_mail.addresses(["warning"], alpha) == []
    User.objects.update(is_active=False)
    assert alert_mail.addresses(["critical"], alpha) == []


def test_one_mail_tells_of_alerts_that_come_together(settings: Any, mailoutbox: list[Any]) -> None:
    assert alert_mail.enqueue(ALERTS, None) == 0, "there is no mail server"
    settings.EMAIL_HOST = "mail.example.net"
    assert alert_mail.enqueue(ALERTS, None) == 1
    job = OrmQ.objects.get()
    from dispatch.services import mail

    assert job.func() == alert_mail.SENDER
    mail.send(*job.task["args"])
    [sent] = mailoutbox
    assert sent.to == [User.objects.get(role="operator").email]
    assert "critical: No worker is live" in sent.body
