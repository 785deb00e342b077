"""Work: lanes, tasks, leases, attempts and the checkpoint journal.

States (core/states.py is the only place that knows the transitions): 0 scheduled, 1 queued, 2 leased, 3 held,
4 succeeded, 5 dead, 6 cancelled. Costs are integers in micro-units of the pool's cost unit.
`task` has partial indexes for queued, scheduled, held and dead rows only: one on leased rows made a 12 ms batch
take 400-700 ms with stale statistics, hence leases live in their own narrow table.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from dispatch.models.policy import CapSet, Pool, Tenant, TenantUser, WorkClass


class Lane(models.Model):
    """Tasks that differ only in order: one pool, class, tenant, user, capability set and tool set."""

    pool = models.ForeignKey(Pool, models.PROTECT)
    work_class = models.ForeignKey(WorkClass, models.PROTECT)
    tenant = models.ForeignKey(Tenant, models.PROTECT)
    user = models.ForeignKey(TenantUser, models.PROTECT)
    capset = models.ForeignKey(CapSet, models.PROTECT)
    tools = ArrayField(models.BigIntegerField(), default=list)

    class Meta:
        db_table = "lane"
        constraints = [
            models.UniqueConstraint(fields=["pool", "work_class", "tenant", "user", "capset", "tools"], name="lane_key")
        ]


class Task(models.Model):
    """One unit of work. `enqueued_at` keeps its place through reclaim, retry, release and preemption."""

    pool = models.ForeignKey(Pool, models.DO_NOTHING, db_constraint=False, db_index=False)
    work_class = models.ForeignKey(WorkClass, models.DO_NOTHING, db_constraint=False, db_index=False)
    tenant = models.ForeignKey(Tenant, models.DO_NOTHING, db_constraint=False, db_index=False)
    lane = models.ForeignKey(Lane, models.PROTECT, db_index=False)
    type = models.CharField(max_length=63, default="", db_default="")
    payload = models.JSONField()
    priority = models.SmallIntegerField(default=0, db_default=0)
    state = models.SmallIntegerField()
    key = models.CharField(max_length=200, null=True)
    content_hash = models.BinaryField(null=True)
    cost_hint = models.BigIntegerField(null=True)
    run_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    enqueued_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(
        null=True, help_text="since when it has been startable (queue age counts from here)"
    )
    finished_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    max_attempts = models.SmallIntegerField(null=True)
    max_runtime_s = models.FloatField(null=True)
    progress_timeout_s = models.FloatField(null=True)
    # counted when the lease ends: one update of a wide row less
    starts = models.IntegerField(default=0, db_default=0, help_text="delivered leases, ever")
    attempts = models.SmallIntegerField(default=0, db_default=0, help_text="counted ones of this life")
    losses = models.SmallIntegerField(default=0, db_default=0, help_text="lost or stalled ones of this life")
    handbacks = models.IntegerField(default=0, db_default=0, help_text="uncounted returns of this life")
    cancel_requested = models.BooleanField(default=False, db_default=False)
    cancel_reason = models.TextField(default="", db_default="")
    last_token = models.BigIntegerField(null=True, help_text="of the attempt that ended last, for repeated calls")
    last_outcome = models.SmallIntegerField(null=True)
    last_worker_id = models.BigIntegerField(null=True, help_text="another worker is preferred after a failure")
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    reason = models.TextField(default="", db_default="")
    fingerprint = models.CharField(max_length=32, default="", db_default="")

    class Meta:
        db_table = "task"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "key"], condition=Q(key__isnull=False), name="task_tenant_key")
        ]
        indexes = [
            # heads of a lane in start order: the dispatcher's skip scan + LATERAL
            models.Index(
                "lane", models.F("priority").desc(), "enqueued_at", "id", name="task_queued", condition=Q(state=1)
            ),
            # the oldest startable task of a lane (aging, promotion, queue age)
            models.Index("lane", "queued_at", name="task_queued_age", condition=Q(state=1)),
            models.Index("pool", "run_at", name="task_scheduled", condition=Q(state=0)),
            models.Index("pool", "id", name="task_held", condition=Q(state=3)),
            models.Index("deadline", name="task_deadline", condition=Q(state__in=[0, 1, 3], deadline__isnull=False)),
            models.Index("fingerprint", "id", name="task_dead", condition=Q(state=5)),
            models.Index("finished_at", "id", name="task_died", condition=Q(state=5)),
            models.Index("id", name="task_cancelled", condition=Q(state=6)),
            models.Index("tenant", "finished_at", "id", name="task_finished", condition=Q(finished_at__isnull=False)),
            models.Index("tenant", "id", name="task_tenant"),
            models.Index("work_class", "id", name="task_class"),
        ]


class Lease(models.Model):
    """Time-boxed ownership of one task: the only capacity ledger (in-flight numbers are counted from here).

    Plain index on the session, none on expires_at or delivered_at: heartbeats must stay HOT.
    """

    task = models.OneToOneField(Task, models.DO_NOTHING, primary_key=True, db_constraint=False)
    token = models.BigIntegerField(help_text="fencing token, from one sequence")
    pool = models.ForeignKey(Pool, models.DO_NOTHING, db_constraint=False, db_index=False)
    lane = models.ForeignKey(Lane, models.DO_NOTHING, db_constraint=False, db_index=False)
    session = models.ForeignKey("WorkerSession", models.DO_NOTHING, db_constraint=False, db_index=False)
    granted_at = models.DateTimeField(db_default=Now())
    delivered_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    renewed_at = models.DateTimeField(null=True)
    extensions = models.SmallIntegerField(default=0, db_default=0, help_text="grace given for outages of our own")
    attempt = models.IntegerField(default=0, db_default=0, help_text="which start of the task this is")
    claim_id = models.TextField(null=True)
    charged = models.BigIntegerField()
    promoted = models.BooleanField(default=False, db_default=False)
    tier = models.CharField(max_length=1, default="W", db_default="W")
    directive = models.SmallIntegerField(default=0, db_default=0, help_text="0 continue, 1 yield, 2 cancel")
    directive_at = models.DateTimeField(null=True)
    runtime_until = models.DateTimeField(null=True, help_text="max runtime or deadline, whichever comes first")
    progress_timeout_s = models.FloatField(null=True)
    progress_at = models.DateTimeField(null=True)
    progress_step = models.BigIntegerField(null=True)
    progress_fraction = models.FloatField(null=True)
    progress_note = models.TextField(default="", db_default="")
    progress_fingerprint = models.TextField(default="", db_default="")
    progress_cost = models.BigIntegerField(null=True)

    class Meta:
        db_table = "lease"
        indexes = [
            # with the token: offers are newer than what was delivered, so a claim never walks over dead entries
            models.Index("session", "token", name="lease_session")
        ]


class Attempt(models.Model):
    """One ended lease: who, when, how it ended. Partitioned by `ended_at` (migration 0002), so no foreign keys."""

    id = models.BigAutoField(primary_key=True)
    task_id = models.BigIntegerField()
    token = models.BigIntegerField()
    attempt = models.IntegerField()
    pool_id = models.BigIntegerField()
    lane_id = models.BigIntegerField()
    session_id = models.BigIntegerField()
    worker_id = models.BigIntegerField()
    worker_name = models.TextField()
    granted_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField()
    outcome = models.SmallIntegerField()
    counted = models.BooleanField()
    state = models.SmallIntegerField(null=True, help_text="of the task right after, for repeated calls")
    error = models.JSONField(null=True)
    reason = models.TextField()
    cost = models.BigIntegerField(null=True)
    progress = models.JSONField(null=True)
    late = models.JSONField(null=True, help_text="what the agent reported after the lease was lost: evidence only")

    class Meta:
        db_table = "attempt"
        managed = False


class JournalEntry(models.Model):
    """The append-only checkpoint journal of a task, handed to its next attempt."""

    task_id = models.BigIntegerField()
    token = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())
    data = models.JSONField()
    append = models.BooleanField(default=False, db_default=False)

    class Meta:
        db_table = "journal_entry"
        indexes = [models.Index("task_id", "id", name="journal_task")]
