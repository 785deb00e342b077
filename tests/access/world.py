"""Two departments that know nothing of each other, everything that has an id in both, and everybody who may come.

The foreign department's names, users, types, payloads, reasons and errors all hold the word MARK: who must not see the
department must never be told it, in any answer.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from dispatch.models import Alert, Membership, Tenant, User
from dispatch.services import (
    access,
    budgets,
    bulk,
    invitations,
    keys,
    pause,
    policy,
    quota_requests,
    silences,
    tenant_limits,
    webhooks,
)
from tests.services.world import ROOT, bury, lease, put, worker_session
from tests.services.world import key as key_of

MARK = "zebra"
OWN, FOREIGN = "ours", f"{MARK}-dept"
SCOPES = ("submit", "work", "read", "operate", "admin")
PERSONS = ("anonymous", "operator", "auditor", "admin", "member", "viewer", "nobody")
KEYS = ("none", *SCOPES, *(f"{scope}@{OWN}" for scope in SCOPES))


@dataclass
class Side:
    """The ids of one department's things."""

    tenant: str
    ids: dict[str, Any] = field(default_factory=dict)


def make_world() -> dict[str, Side]:
    """Both departments with tasks in every state, limits, keys, webhooks, alerts, requests and bulk jobs."""
    policy.create(ROOT, "class", "standard", {"slo_queue_s": 60})
    policy.create(ROOT, "tool", "crm", {})
    policy.create(ROOT, "capability", "ocr", {})
    policy.create(ROOT, "pool", "spare", {})
    policy.create(ROOT, "class", "spare", {})
    policy.create(ROOT, "tenant", "spare", {})
    policy.create(ROOT, "tool", "spare", {})
    policy.create(ROOT, "capability", "spare", {})
    return {"own": _side(OWN, "plain"), "foreign": _side(FOREIGN, MARK)}


def _side(tenant: str, word: str) -> Side:
    policy.create(ROOT, "tenant", tenant, {"nominal": 2}, f"{word} reason")
    tenant_id = Tenant.objects.get(slug=tenant).pk
    spec = {"tenant": tenant, "work_class": "standard", "user": f"{word}-user", "type": f"{word}-type"}
    task = {name: put(payload={"text": f"{word} payload"}, **spec).id for name in ("queued", "leased", "dead")}
    put(payload={"text": f"{word} payload"}, key=f"{word}-key", **spec)
    session = worker_session(f"w-{tenant}")
    session.tenant_id = tenant_id
    session.save()
    token = lease(task["leased"], session).token
    bury(task["dead"], error={"message": f"{word} error"}, fingerprint=f"f{word}")
    put(payload=1, **spec)
    alert = Alert.objects.create(
        rule="starvation", subject=f"{word}-subject", severity="warning", text=f"{word} alert", tenant_id=tenant_id
    )
    request = quota_requests.create(ROOT, tenant, {"nominal": 3}, {"standard": 2}, f"{word} request")
    tenant_limits.put(ROOT, tenant, "class", "standard", {"max": 9})
    budgets.create(ROOT, tenant, "monthly", {"limit": 1000}, f"{word} budget")
    extra = budgets.top_up(ROOT, tenant, "monthly", 5, f"{word} top-up")["extras"][0]
    hook = webhooks.create_webhook(ROOT, name=f"{word} hook", url=f"https://93.184.216.34/{word}", tenant=tenant)
    delivery = webhooks.test_webhook(ROOT, hook["id"])
    key = keys.create_key(ROOT, name=f"{word} key", scopes=["admin"], tenant=tenant)
    job = bulk.create(
        key_of("operate", "read", tenant=tenant), "requeue", {"tenant": tenant}, f"{word} job", dry_run=True
    )
    until = timezone.now() + timedelta(hours=1)
    silence = silences.create_silence(ROOT, {"tenant": tenant}, f"{word} silence", until)
    invitations.invite(ROOT, f"{word}@example.net", "viewer", tenant)
    pause.pause(ROOT, "tenant", tenant, f"{word} pause")
    pause.resume(ROOT, "tenant", tenant, f"{word} resume")
    return Side(
        tenant,
        {
            "tenant": tenant,
            "version": policy.get(ROOT, "tenant", tenant)["version"],
            "task_id": task["queued"],
            "leased": task["leased"],
            "dead": task["dead"],
            "token": token,
            "session_id": session.pk,
            "worker_id": session.worker_id,
            "alert_id": alert.pk,
            "request_id": request["id"],
            "webhook_id": hook["id"],
            "delivery_id": delivery["id"],
            "key_id": key["id"],
            "job_id": job["id"],
            "extra_id": extra["id"],
            "silence_id": silence["id"],
            "user": f"{word}-user",
            "fingerprint": f"f{word}",
        },
    )


def people() -> dict[str, Client]:
    """A browser of each kind of person; admin, member and viewer are of OWN and may see payloads there."""
    found = {"anonymous": Client()}
    for name in PERSONS[1:]:
        role = name if name in ("operator", "auditor") else ""
        user = User.objects.create_user(f"{name}@example.net", "a long password", role=role)
        if name in access.ROLES:
            tenant = Tenant.objects.get(slug=OWN)
            Membership.objects.create(user=user, tenant=tenant, role=name, view_payloads=True)
        found[name] = Client()
        found[name].force_login(user, "django.contrib.auth.backends.ModelBackend")
    for client in found.values():
        client.raise_request_exception = False
    return found


def headers() -> dict[str, dict[str, str]]:
    """The header of a key of each kind."""
    found: dict[str, dict[str, str]] = {"none": {}}
    for name in KEYS[1:]:
        scope, _, tenant = name.partition("@")
        made = keys.create_key(ROOT, name=f"key {scope}", scopes=[scope], tenant=tenant or None)
        found[name] = {"Authorization": f"Bearer {made['key']}"}
    return found
