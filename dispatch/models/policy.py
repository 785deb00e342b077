"""The policy: pools, classes, tenants, users, tools and capabilities.

Every edit goes through services/policy.py (version check, audit entry) and leaves a history row by trigger
(django-pghistory). The dispatcher reads these tables afresh each cycle, so an edit acts on queued work at once.
Weights are plain numbers (0, or 0.001..1000), durations are seconds, slot limits are counts; null means "none".
"""

import pghistory
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Pausable(models.Model):
    """What can be paused, by whom, why and until when (null: until resumed)."""

    paused = models.BooleanField(default=False, db_default=False)
    paused_at = models.DateTimeField(null=True)
    paused_until = models.DateTimeField(null=True)
    paused_by = models.TextField(default="", db_default="")
    pause_reason = models.TextField(default="", db_default="")

    class Meta:
        abstract = True


class Versioned(models.Model):
    """Optimistic concurrency: every PATCH names the version it read. Archived: gone for everybody but the history."""

    slug = models.CharField(max_length=63, unique=True)
    version = models.IntegerField(default=1, db_default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    archived_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


@pghistory.track()
class Pool(Versioned, Pausable):
    """A scheduling domain: workers, a budget of slots, its own policy and its own dispatcher turn."""

    budget = models.IntegerField(null=True)
    lease_ttl_s = models.FloatField(default=30, db_default=30)
    heartbeat_every_s = models.FloatField(default=10, db_default=10)
    offer_ttl_s = models.FloatField(default=5, db_default=5)
    max_reclaims = models.IntegerField(null=True)
    max_handbacks = models.IntegerField(default=100, db_default=100)
    promotion_slots = models.IntegerField(null=True)
    user_max = models.IntegerField(null=True)
    max_task_cost = models.FloatField(null=True)
    cost_unit = models.CharField(max_length=32, default="slot-seconds", db_default="slot-seconds")
    policy = models.CharField(max_length=63, default="fair", db_default="fair")
    debt_halflife_s = models.FloatField(null=True, default=600, db_default=600)
    reclaim_min_runtime_s = models.FloatField(null=True, default=60, db_default=60)
    reclaim_dead_zone = models.IntegerField(default=0, db_default=0)
    reclaim_per_round = models.IntegerField(null=True)
    yield_grace_s = models.FloatField(default=30, db_default=30)

    class Meta:
        db_table = "pool"


@pghistory.track()
class WorkClass(Versioned, Pausable):
    """A workload class of one pool: weight, floor, ceiling, aging, SLOs and retry rules."""

    pool = models.ForeignKey(Pool, models.PROTECT)
    weight = models.FloatField(default=1, db_default=1)
    min = models.IntegerField(default=0, db_default=0)
    max = models.IntegerField(null=True)
    lend = models.IntegerField(null=True)
    level = models.IntegerField(default=1, db_default=1)
    aging_step_s = models.FloatField(null=True)
    max_wait_s = models.FloatField(null=True)
    slo_queue_s = models.FloatField(null=True)
    slo_done_s = models.FloatField(null=True)
    max_attempts = models.IntegerField(default=3, db_default=3)
    backoff_s = models.FloatField(default=5, db_default=5)
    backoff_max_s = models.FloatField(default=300, db_default=300)
    default_cost = models.FloatField(null=True)
    preempt = models.BooleanField(default=False, db_default=False)
    retain_s = models.FloatField(default=1209600, db_default=1209600)

    class Meta:
        db_table = "work_class"


@pghistory.track()
class Tenant(Versioned, Pausable):
    """A department: weight, nominal quota, maximum, borrowing limit, submit limits and cost budget."""

    weight = models.FloatField(default=1, db_default=1)
    nominal = models.IntegerField(default=0, db_default=0)
    max = models.IntegerField(null=True)
    borrow = models.IntegerField(null=True)
    user_max = models.IntegerField(null=True)
    max_queued = models.IntegerField(null=True)
    submit_per_minute = models.IntegerField(null=True)
    cost_budget = models.FloatField(null=True)
    budget_window_s = models.FloatField(null=True)
    ceilings = models.JSONField(
        default=dict, db_default={}, help_text="the operators' limits where the department set lower ones, by field"
    )
    paused_within = models.BooleanField(
        default=False, db_default=False, help_text="whether its own people or keys have paused it, not the operators"
    )

    class Meta:
        db_table = "tenant"


@pghistory.track()
class TenantUser(models.Model):
    """A submitter inside a tenant; comes into being at first use. `-` stands for "no user given"."""

    tenant = models.ForeignKey(Tenant, models.PROTECT)
    name = models.CharField(max_length=63)
    weight = models.FloatField(default=1, db_default=1)
    max = models.IntegerField(null=True)
    ceiling = models.IntegerField(null=True, help_text="the operators' maximum; the department's own is at most this")
    version = models.IntegerField(default=1, db_default=1)

    class Meta:
        db_table = "tenant_user"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="tenant_user_name")]


@pghistory.track()
class TenantClass(models.Model):
    """How many tasks of one class a tenant may run at once, beside its own maximum; per pool, as all slot limits."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, db_index=False)
    work_class = models.ForeignKey(WorkClass, models.PROTECT)
    max = models.IntegerField(null=True)
    ceiling = models.IntegerField(null=True, help_text="the operators' maximum; the department's own is at most this")
    version = models.IntegerField(default=1, db_default=1)

    class Meta:
        db_table = "tenant_class"
        constraints = [models.UniqueConstraint(fields=["tenant", "work_class"], name="tenant_class_once")]


class QuotaRequest(models.Model):
    """A department asks its operators for more: what it wants, why, and how it was answered."""

    tenant = models.ForeignKey(Tenant, models.CASCADE)
    changes = models.JSONField(help_text="fields of the tenant and the values wanted")
    classes = models.JSONField(default=dict, help_text="classes and the maximum wanted in each (null: none)")
    reason = models.TextField()
    state = models.CharField(max_length=10, default="open", db_default="open")
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    answered_at = models.DateTimeField(null=True)
    answered_by = models.TextField(default="", db_default="")
    note = models.TextField(default="", db_default="")

    class Meta:
        db_table = "quota_request"
        indexes = [models.Index("state", "id", name="quota_request_state")]


@pghistory.track()
class Tool(Versioned, Pausable):
    """An external resource that tasks use: a maximum of concurrent tasks and a fleet-wide cooldown."""

    max = models.IntegerField(null=True)
    cooldown_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "tool"


class Capability(Versioned):
    """A name that tasks require and workers advertise; comes into being at first use."""

    class Meta:
        db_table = "capability"


class CapSet(models.Model):
    """An interned, sorted set of capability names: lanes and sessions point here, so sets compare by id."""

    names = ArrayField(models.CharField(max_length=63), unique=True)

    class Meta:
        db_table = "capset"
