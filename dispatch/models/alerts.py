"""Alerts, what operators set for the rules behind them, and what keeps them quiet: silences."""

from django.db import models
from django.db.models.functions import Now

from dispatch.models.policy import WorkClass


class Alert(models.Model):
    """One finding from firing to resolved; deduplicated by (rule, subject) while it is open.

    Its state is told, not stored: resolved; acknowledged while an acknowledgement holds (until its time, and not once
    the severity is above the one that was acknowledged); else firing. Muted ones notify nobody: `silence_id` or
    `inhibited_by` (another open alert that explains this one) says why.
    """

    rule = models.CharField(max_length=48)
    subject = models.TextField()
    severity = models.CharField(max_length=8)
    text = models.TextField()
    evidence = models.JSONField(default=dict)
    pool_id = models.BigIntegerField(null=True)
    class_id = models.BigIntegerField(null=True)
    tenant_id = models.BigIntegerField(null=True)
    fired_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    resolved_at = models.DateTimeField(null=True)
    acked_at = models.DateTimeField(null=True)
    acked_by = models.TextField(default="", db_default="")
    acked_until = models.DateTimeField(null=True)
    acked_severity = models.CharField(max_length=8, default="", db_default="")
    note = models.TextField(default="", db_default="")
    silence_id = models.BigIntegerField(null=True)
    inhibited_by = models.BigIntegerField(null=True)
    told = models.CharField(max_length=12, default="", db_default="", help_text="the open state that was told last")
    told_severity = models.CharField(max_length=8, default="", db_default="")
    told_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "alert"
        indexes = [
            models.Index("id", name="alert_untold", condition=models.Q(resolved_at__isnull=True) | ~models.Q(told=""))
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"], condition=models.Q(resolved_at__isnull=True), name="alert_open"
            )
        ]


class AlertRule(models.Model):
    """What operators set for a detector (core/detectors), for everything (`work_class` null) or for one class.

    `thresholds` holds the changed ones only; the others are the rule's or the detector's own.
    """

    rule = models.CharField(max_length=48)
    work_class = models.ForeignKey(WorkClass, models.CASCADE, null=True)
    enabled = models.BooleanField(default=True, db_default=True)
    thresholds = models.JSONField(default=dict, db_default={})
    version = models.IntegerField(default=1, db_default=1)
    updated_at = models.DateTimeField(db_default=Now())
    updated_by = models.TextField(default="", db_default="")

    class Meta:
        db_table = "alert_rule"
        constraints = [
            models.UniqueConstraint(fields=["rule", "work_class"], name="alert_rule_once", nulls_distinct=False)
        ]


class Silence(models.Model):
    """Alerts that match all words of `matcher` (core/alerting.py) notify nobody between two times."""

    matcher = models.JSONField()
    tenant_id = models.BigIntegerField(null=True)
    starts_at = models.DateTimeField(db_default=Now())
    ends_at = models.DateTimeField()
    author = models.TextField()
    note = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "silence"
        indexes = [models.Index("ends_at", name="silence_ends")]
