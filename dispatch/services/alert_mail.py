"""Firing alerts by e-mail to the people who want alerts of that severity (`/account`) and may see them.

Alerts about a department go to its members and to operators and auditors, all others to operators and auditors only.
The slow jobs send them; without a mail server nothing is written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db.models import Q
from django_q.tasks import async_task

from dispatch.models import User
from dispatch.services.mail import SCHEME

SENDER = "dispatch.services.mail.send"


def addresses(severities: Sequence[str], tenant_id: int | None) -> list[str]:
    """Who wants to hear of alerts of one of these severities about this tenant (None: about no single one)."""
    allowed = Q(role__in=("operator", "auditor"))
    if tenant_id is not None:
        allowed |= Q(membership__tenant_id=tenant_id)
    found = User.objects.filter(allowed, is_active=True, alert_mail__overlap=list(severities))
    return sorted(set(found.values_list("email", flat=True)))


def enqueue(alerts: Sequence[Mapping[str, Any]], tenant_id: int | None) -> int:
    """Have one mail about these alerts sent to each of those people, inside the caller's transaction; how many."""
    if not settings.EMAIL_HOST:
        return 0
    found = addresses([alert["severity"] for alert in alerts], tenant_id)
    text = "\n".join(f"{alert['severity']}: {alert['text']}" for alert in alerts)
    for address in found:
        async_task(SENDER, SCHEME + address, alerts[0]["text"], text)
    return len(found)
