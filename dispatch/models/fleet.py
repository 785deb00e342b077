"""The fleet and our own processes: workers, sessions, parked claims, pulses, leaders."""

from django.db import models
from django.db.models.functions import Now

from dispatch.models.policy import CapSet, Pausable, Pool, Tenant


class Worker(Pausable):
    """A named claimant. The row outlives its sessions and carries its deficit; leases belong to sessions."""

    pool = models.ForeignKey(Pool, models.PROTECT, db_index=False)
    name = models.CharField(max_length=63)
    weight = models.FloatField(default=1, db_default=1)
    deficit = models.BigIntegerField(default=0, db_default=0, help_text="micro-units, written by the dispatcher only")
    draining = models.BooleanField(default=False, db_default=False)
    quarantined = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(db_default=Now())
    archived_at = models.DateTimeField(null=True, help_text="deleted: gone from the fleet, its attempts keep its name")

    class Meta:
        db_table = "worker"
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="worker_name")]


class Process(models.Model):
    """A pulse of one of our own processes (web, dispatcher, reconciler, sentinel), shown on the System page."""

    kind = models.CharField(max_length=32)
    host = models.TextField()
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())
    up_since = models.DateTimeField(db_default=Now(), help_text="since when it has pulsed without a gap")
    info = models.JSONField(default=dict)

    class Meta:
        db_table = "process"


class WorkerSession(models.Model):
    """One registration of a worker by one API key. Ends by DELETE or 24 h after its last call."""

    worker = models.ForeignKey(Worker, models.CASCADE)
    pool = models.ForeignKey(Pool, models.PROTECT, db_index=False)
    capset = models.ForeignKey(CapSet, models.PROTECT, db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, help_text="bound key: eligible for this tenant only")
    api_key_id = models.BigIntegerField(null=True)
    slots = models.IntegerField()
    version = models.TextField(default="", db_default="")
    labels = models.JSONField(default=dict)
    opened_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "worker_session"
        indexes = [models.Index("pool", "id", name="session_open", condition=models.Q(closed_at__isnull=True))]


class Demand(models.Model):
    """One parked claim. UNLOGGED (migration 0002): after a crash of the database no claim is parked any more."""

    session = models.ForeignKey(WorkerSession, models.DO_NOTHING, db_constraint=False)
    pool_id = models.BigIntegerField()
    wanted = models.IntegerField()
    until = models.DateTimeField()
    process_id = models.BigIntegerField(null=True)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "demand"


class PoolLeader(models.Model):
    """Who dispatches a pool: written by the dispatcher only, referenced by nothing."""

    pool = models.OneToOneField(Pool, models.CASCADE, primary_key=True)
    epoch = models.BigIntegerField(default=0, db_default=0)
    cycle_no = models.BigIntegerField(default=0, db_default=0)
    process_id = models.BigIntegerField(null=True)
    backend_pid = models.IntegerField(null=True)
    beat_at = models.DateTimeField(null=True)
    cycle_ms = models.FloatField(null=True)
    last_cycle_at = models.DateTimeField(null=True)
    memory = models.JSONField(default=dict, help_text="scalar state of the policy between cycles")

    class Meta:
        db_table = "pool_leader"
