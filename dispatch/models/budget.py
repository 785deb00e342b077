"""Cost budgets: what a tenant may spend in a window, and the ledger of what it has spent.

Amounts are micro-units of the pool's cost unit. Reserved is what running leases are charged (`lease.charged`, the
only capacity ledger); settled is what ended attempts cost in truth, added up per window by the dispatcher. What is
neither yet (`settlement`) is counted with both.
"""

import pghistory
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from dispatch.models.policy import Tenant, TenantUser, WorkClass


@pghistory.track()
class Budget(models.Model):
    """One budget of a tenant. `follows`: it is the tenant's own `cost_budget`, and is edited there."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    slug = models.CharField(max_length=63)
    work_class = models.ForeignKey(WorkClass, models.PROTECT, null=True, related_name="+")
    user = models.ForeignKey(TenantUser, models.PROTECT, null=True)
    unit = models.CharField(
        max_length=32, default="", db_default="", help_text="counts pools of this cost unit; empty: all"
    )
    amount = models.BigIntegerField()
    span = models.CharField(max_length=8, default="", db_default="", help_text="hour, day, week, month; empty: span_s")
    span_s = models.FloatField(null=True, help_text="a window of so many seconds; null and no span: one for ever")
    timezone = models.CharField(max_length=64, default="UTC", db_default="UTC")
    on_breach = models.CharField(max_length=8, default="hold", db_default="hold")
    degrade_to = models.ForeignKey(WorkClass, models.PROTECT, null=True, related_name="+")
    alert_at = models.FloatField(default=0.8, db_default=0.8)
    follows = models.BooleanField(default=False, db_default=False)
    version = models.IntegerField(default=1, db_default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    archived_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "budget"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "slug"], condition=Q(archived_at__isnull=True), name="budget_slug"
            )
        ]


class BudgetSpend(models.Model):
    """What one window of a budget has settled; kept as the history of its use."""

    budget = models.ForeignKey(Budget, models.CASCADE, db_index=False)
    window_start = models.DateTimeField()
    settled = models.BigIntegerField(default=0, db_default=0)
    refused_at = models.DateTimeField(null=True, help_text="since when something waits for this budget")

    class Meta:
        db_table = "budget_spend"
        constraints = [models.UniqueConstraint(fields=["budget", "window_start"], name="budget_spend_window")]


class BudgetExtra(models.Model):
    """More for a while: a top-up adds to the amount, an override stands in its place (null: no limit)."""

    budget = models.ForeignKey(Budget, models.CASCADE)
    kind = models.CharField(max_length=8)
    amount = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    until_at = models.DateTimeField(null=True, help_text="null: for ever (a top-up of a budget without windows)")
    created_by = models.TextField()
    reason = models.TextField()
    ended_at = models.DateTimeField(null=True, help_text="taken back before its time")

    class Meta:
        db_table = "budget_extra"
