"""Webhooks, and the trigger that notes ended tasks for them (statement-level: one look when nobody listens)."""

import uuid

import django.contrib.postgres.fields
import django.contrib.postgres.functions
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION task_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhook WHERE enabled) THEN
        INSERT INTO webhook_delivery (webhook_id, type, data)
        SELECT w.id, x.type,
               jsonb_build_object(
                   'id', n.id, 'state', x.state, 'key', n.key, 'type', n.type, 'tenant', t.slug, 'class', c.slug,
                   'pool', p.slug, 'reason', nullif(n.reason, ''), 'attempts', n.attempts,
                   'error', CASE WHEN n.error IS NOT NULL THEN jsonb_build_object(
                       'message', left(n.error ->> 'message', 2000), 'kind', n.error ->> 'kind',
                       'type', n.error ->> 'type') END,
                   'finished_at', to_char(n.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
          FROM new_rows n
          JOIN old_rows o ON o.id = n.id AND o.state <> n.state
          JOIN (VALUES (4, 'succeeded', 'task.succeeded'), (5, 'dead', 'task.dead'), (6, 'cancelled', 'task.cancelled'))
               x(code, state, type) ON x.code = n.state
          JOIN webhook w ON w.enabled AND x.type = ANY (w.events)
           AND (w.tenant_id IS NULL OR w.tenant_id = n.tenant_id) AND (w.pool_id IS NULL OR w.pool_id = n.pool_id)
          JOIN tenant t ON t.id = n.tenant_id JOIN work_class c ON c.id = n.work_class_id JOIN pool p ON p.id = n.pool_id
         ORDER BY n.id, w.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_ended AFTER UPDATE ON task REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION task_ended();
"""
BACKWARD = "DROP TRIGGER task_ended ON task; DROP FUNCTION task_ended();"


class Migration(migrations.Migration):
    """Tables first, then the trigger that fills one of them."""

    dependencies = [
        ("dispatch", "0009_alert_life_cycle"),
    ]

    operations = [
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=120)),
                ("url", models.TextField()),
                (
                    "events",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=48), size=None),
                ),
                ("enabled", models.BooleanField(db_default=True, default=True)),
                ("note", models.TextField(db_default="", default="", help_text="why it was disabled")),
                ("generation", models.IntegerField(db_default=1, default=1)),
                (
                    "old_until",
                    models.DateTimeField(help_text="the secret before this one signs too until then", null=True),
                ),
                (
                    "failing_since",
                    models.DateTimeField(help_text="the first failure since the last success", null=True),
                ),
                (
                    "quiet_until",
                    models.DateTimeField(help_text="nothing is sent before, after a failure", null=True),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField(db_default="", default="")),
                ("pool", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="dispatch.pool")),
                (
                    "tenant",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="dispatch.tenant"),
                ),
            ],
            options={
                "db_table": "webhook",
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "message",
                    models.UUIDField(
                        db_default=django.contrib.postgres.functions.RandomUUID(),
                        default=uuid.uuid4,
                        help_text="the same for every try",
                    ),
                ),
                ("type", models.CharField(max_length=48)),
                ("data", models.JSONField()),
                ("state", models.SmallIntegerField(db_default=0, default=0)),
                ("tries", models.IntegerField(db_default=0, default=0)),
                ("next_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("tried_at", models.DateTimeField(null=True)),
                ("status", models.IntegerField(help_text="HTTP status of the last try; null: no answer", null=True)),
                ("latency_ms", models.IntegerField(null=True)),
                ("response", models.TextField(db_default="", default="", help_text="the beginning of the last answer")),
                ("error", models.TextField(db_default="", default="", help_text="why the last try failed")),
                (
                    "webhook",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="dispatch.webhook",
                    ),
                ),
            ],
            options={
                "db_table": "webhook_delivery",
                "indexes": [
                    models.Index(
                        models.F("webhook"),
                        models.F("next_at"),
                        models.F("id"),
                        condition=models.Q(("state", 0)),
                        name="webhook_due",
                    ),
                    models.Index(models.F("webhook"), models.F("id"), name="webhook_log"),
                ],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
