"""Bulk jobs: a frozen list of tasks and how far it is worked through. Executed by the reconciler (services/bulk.py)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class BulkJob(models.Model):
    """One requeue, discard or cancel of many tasks. `tenant_ids`, `pool_id`: what its maker may touch (null: all)."""

    action = models.CharField(max_length=16)
    filter = models.JSONField()
    state = models.CharField(max_length=16)
    reason = models.TextField()
    note = models.TextField(default="", db_default="", help_text="why it was stopped")
    actor_kind = models.CharField(max_length=8)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.TextField()
    tenant_ids = ArrayField(models.BigIntegerField(), null=True)
    pool_id = models.BigIntegerField(null=True)
    rate_per_s = models.FloatField(null=True)
    max_in_flight = models.IntegerField(null=True)
    canary = models.IntegerField(null=True)
    stop_above = models.FloatField(null=True)
    matched = models.IntegerField(default=0, db_default=0)
    done = models.IntegerField(default=0, db_default=0)
    skipped = models.IntegerField(default=0, db_default=0)
    well = models.IntegerField(default=0, db_default=0, help_text="requeued ones that ended well")
    again = models.IntegerField(default=0, db_default=0, help_text="requeued ones that died again")
    new = models.IntegerField(default=0, db_default=0, help_text="matching at the start, but not frozen")
    resumes = models.CharField(max_length=16, default="running", db_default="running", help_text="state after a pause")
    credit = models.BigIntegerField(default=0, db_default=0, help_text="millionths of a task that the rate permits")
    paced_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "bulk_job"
        indexes = [
            models.Index("id", name="bulk_active", condition=models.Q(state__in=["running", "canary"])),
        ]


class BulkItem(models.Model):
    """One frozen task of a job. State: 0 pending, 1 done, 2 skipped, 3 done and ended well, 4 done and dead again."""

    job = models.ForeignKey(BulkJob, models.CASCADE, db_index=False)
    task_id = models.BigIntegerField()
    state = models.SmallIntegerField(default=0, db_default=0)
    reason = models.TextField(default="", db_default="")

    class Meta:
        db_table = "bulk_item"
        constraints = [models.UniqueConstraint(fields=["job", "task_id"], name="bulk_item_once")]
        indexes = [
            models.Index("job", "task_id", name="bulk_item_open", condition=models.Q(state__in=[0, 1])),
            models.Index("job", "task_id", name="bulk_item_skipped", condition=models.Q(state=2)),
        ]
