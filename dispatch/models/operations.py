"""Operations: API keys, audit, idempotency records."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from dispatch.models.policy import Pool, Tenant


class ApiKey(models.Model):
    """A key `ef_<prefix>_<secret>`: the prefix is stored in clear, the secret only as HMAC-SHA256."""

    prefix = models.CharField(max_length=8, unique=True)
    digest = models.BinaryField()
    name = models.CharField(max_length=120)
    scopes = ArrayField(models.CharField(max_length=16))
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True)
    pool = models.ForeignKey(Pool, models.CASCADE, null=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField(default="", db_default="")
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_key"


class AuditEvent(models.Model):
    """One command of a person or an operate/admin key, refused ones included. Append-only by trigger."""

    at = models.DateTimeField(db_default=Now())
    actor_kind = models.CharField(max_length=8)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.TextField()
    action = models.CharField(max_length=48)
    target_kind = models.CharField(max_length=32)
    target = models.TextField()
    tenant_id = models.BigIntegerField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(default="", db_default="")
    request_id = models.TextField(default="", db_default="")
    refused = models.BooleanField(default=False, db_default=False)

    class Meta:
        db_table = "audit_event"
        indexes = [
            models.Index("target_kind", "target", "id", name="audit_target"),
            models.Index("tenant_id", "id", name="audit_tenant"),
        ]


class AuditLink(models.Model):
    """The place of one committed audit entry in the chain, with its hash (core/chain.py). Append-only by trigger."""

    seq = models.BigIntegerField(primary_key=True)
    event_id = models.BigIntegerField(unique=True)
    hash = models.BinaryField()

    class Meta:
        db_table = "audit_link"


class IdempotencyKey(models.Model):
    """The first answer to an Idempotency-Key, per API key and path, kept 24 h."""

    api_key_id = models.BigIntegerField()
    path = models.TextField()
    key = models.CharField(max_length=200)
    body_hash = models.BinaryField()
    status = models.SmallIntegerField(null=True)
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "idempotency_key"
        constraints = [models.UniqueConstraint(fields=["api_key_id", "path", "key"], name="idempotency_once")]
        indexes = [models.Index("created_at", name="idempotency_age")]
