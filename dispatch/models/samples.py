"""Samples of queues and flows over time, and the totals since the beginning. Written by services/sampling.py only."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class QueueSample(models.Model):
    """What one class (or one tenant of it, or with neither the whole pool) looked like and did, in one step of time.

    `step` is 1, 10, 60 or 900 seconds; `at` is the moment (step 1) or where the step begins. Counts of what waits and
    runs are means over the step, ages its largest, flows (`dispatched` to `done_met`) its sums. `waits` counts first
    starts by how long they had waited (core/samples.py: WAIT_BUCKETS_S), `ends` attempts by outcome; both may be short.
    `queue_n`, `done_n` count what an SLO of the class judged, `queue_met`, `done_met` what kept it. `covered_s` is how
    many seconds of the step were seen.
    """

    at = models.DateTimeField()
    step = models.SmallIntegerField()
    pool_id = models.BigIntegerField()
    class_id = models.BigIntegerField(null=True)
    tenant_id = models.BigIntegerField(null=True)
    covered_s = models.FloatField(default=1, db_default=1)
    queued = models.BigIntegerField()
    limited = models.BigIntegerField(default=0, db_default=0)
    scheduled = models.BigIntegerField(default=0, db_default=0)
    held = models.BigIntegerField(default=0, db_default=0)
    running = models.BigIntegerField()
    slots = models.BigIntegerField(null=True)
    target = models.FloatField(null=True)
    oldest_age_s = models.FloatField(null=True)
    limited_oldest_age_s = models.FloatField(null=True)
    dispatched = models.BigIntegerField()
    started = models.BigIntegerField(default=0, db_default=0)
    dead = models.BigIntegerField(default=0, db_default=0)
    slot_s = models.FloatField(default=0, db_default=0)
    waits = ArrayField(models.BigIntegerField(), default=list, db_default=[])
    ends = ArrayField(models.BigIntegerField(), default=list, db_default=[])
    queue_n = models.BigIntegerField(default=0, db_default=0)
    queue_met = models.BigIntegerField(default=0, db_default=0)
    done_n = models.BigIntegerField(default=0, db_default=0)
    done_met = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "queue_sample"
        constraints = [
            # one row a step, however often a roll-up is run; and the line of one class over any range of time
            models.UniqueConstraint(
                fields=["step", "pool_id", "class_id", "tenant_id", "at"], name="sample_line", nulls_distinct=False
            )
        ]
        indexes = [models.Index("step", "pool_id", "at", name="sample_at")]


class SampleMark(models.Model):
    """How far the sampler of a pool has come: the last decision it counted, and up to when it counted flows."""

    pool_id = models.BigIntegerField(primary_key=True)
    decision_id = models.BigIntegerField(default=0, db_default=0)
    flow_to = models.DateTimeField(db_default=Now())
    tenants_to = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "sample_mark"


class FlowTotal(models.Model):
    """What a tenant's tasks of a class did since the beginning: only grows, for counters that others read."""

    pool_id = models.BigIntegerField()
    class_id = models.BigIntegerField()
    tenant_id = models.BigIntegerField()
    dispatched_w = models.BigIntegerField(default=0, db_default=0, help_text="by weight")
    dispatched_g = models.BigIntegerField(default=0, db_default=0, help_text="up to a guaranteed minimum")
    dispatched_p = models.BigIntegerField(default=0, db_default=0, help_text="promoted past their maximum wait")
    started = models.BigIntegerField(default=0, db_default=0)
    dead = models.BigIntegerField(default=0, db_default=0)
    slot_s = models.FloatField(default=0, db_default=0)
    wait_s = models.FloatField(default=0, db_default=0, help_text="of all that `waits` counts")
    waits = ArrayField(models.BigIntegerField(), default=list, db_default=[])
    ends = ArrayField(models.BigIntegerField(), default=list, db_default=[])

    class Meta:
        db_table = "flow_total"
        constraints = [models.UniqueConstraint(fields=["pool_id", "class_id", "tenant_id"], name="flow_total_key")]
