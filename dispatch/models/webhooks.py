"""Webhooks: addresses that are told when tasks end or alerts change, and the messages to them.

A trigger on `task` writes the messages about ended tasks inside the transaction that ends them; it costs one look at
`webhook` while nobody listens. The signing secret is not stored: it is derived from the pepper (services/webhooks.py).
"""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from dispatch.models.policy import Pool, Tenant


class Webhook(models.Model):
    """One address. `kind`: standard (signed JSON), slack (a text for an incoming webhook) or email (`url` is mailto:…).

    `tenant`, `pool`: what it hears of (null: all). `generation` counts the secrets it has had.
    """

    name = models.CharField(max_length=120)
    url = models.TextField()
    kind = models.CharField(max_length=8, default="standard", db_default="standard")
    events = ArrayField(models.CharField(max_length=48))
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True)
    pool = models.ForeignKey(Pool, models.CASCADE, null=True)
    enabled = models.BooleanField(default=True, db_default=True)
    note = models.TextField(default="", db_default="", help_text="why it was disabled")
    generation = models.IntegerField(default=1, db_default=1)
    old_until = models.DateTimeField(null=True, help_text="the secret before this one signs too until then")
    failing_since = models.DateTimeField(null=True, help_text="the first failure since the last success")
    quiet_until = models.DateTimeField(null=True, help_text="nothing is sent before, after a failure")
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField(default="", db_default="")

    class Meta:
        db_table = "webhook"


class WebhookDelivery(models.Model):
    """One message to one address, with its last try. State: 0 pending, 1 delivered, 2 given up."""

    webhook = models.ForeignKey(Webhook, models.DO_NOTHING, db_constraint=False, db_index=False)
    message = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), help_text="the same for every try")
    type = models.CharField(max_length=48)
    data = models.JSONField()
    state = models.SmallIntegerField(default=0, db_default=0)
    tries = models.IntegerField(default=0, db_default=0)
    next_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now())
    tried_at = models.DateTimeField(null=True)
    status = models.IntegerField(null=True, help_text="HTTP status of the last try; null: no answer")
    latency_ms = models.IntegerField(null=True)
    response = models.TextField(default="", db_default="", help_text="the beginning of the last answer")
    error = models.TextField(default="", db_default="", help_text="why the last try failed")

    class Meta:
        db_table = "webhook_delivery"
        indexes = [
            models.Index("webhook", "next_at", "id", name="webhook_due", condition=Q(state=0)),
            models.Index("webhook", "id", name="webhook_log"),
        ]
