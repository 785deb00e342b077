"""Ledgers of the scheduler: share accounts, learned costs, settlements, lane counts, decisions."""

from django.db import models
from django.db.models.functions import Now

from dispatch.models.policy import Pool


class ShareAccount(models.Model):
    """Virtual times of one tree node or clock of one starvation lane; written only by the dispatch transaction.

    `node` is a path: "c5", "c5/t7", "c5/t7/u9" (nodes) or "l5/7/3" (starvation lane: class/tenant/capset).
    Numbers are integers; `data` holds the node's fields as JSON with exact integers.
    """

    pool = models.ForeignKey(Pool, models.CASCADE, db_index=False)
    node = models.CharField(max_length=64)
    data = models.JSONField()

    class Meta:
        db_table = "share_account"
        constraints = [models.UniqueConstraint(fields=["pool", "node"], name="share_account_node")]


class LearnedCost(models.Model):
    """What (class, tenant, task type) costs in truth: EWMA, decayed maximum, bias of the hints (integers)."""

    pool = models.ForeignKey(Pool, models.CASCADE, db_index=False)
    class_id = models.BigIntegerField()
    tenant_id = models.BigIntegerField()
    task_type = models.CharField(max_length=63)
    data = models.JSONField()

    class Meta:
        db_table = "learned_cost"
        constraints = [
            models.UniqueConstraint(fields=["pool", "class_id", "tenant_id", "task_type"], name="learned_cost_key")
        ]


class Settlement(models.Model):
    """One ended attempt's cost: appended by whoever ends a lease, consumed by the next dispatch cycle."""

    pool_id = models.BigIntegerField()
    lane_id = models.BigIntegerField()
    task_id = models.BigIntegerField()
    worker_id = models.BigIntegerField()
    task_type = models.CharField(max_length=63)
    charged = models.BigIntegerField()
    actual = models.BigIntegerField()
    hint = models.BigIntegerField(null=True)
    outcome = models.SmallIntegerField()

    class Meta:
        db_table = "settlement"
        indexes = [models.Index("pool_id", "id", name="settlement_pool")]


class LaneDelta(models.Model):
    """Changes of a lane's counts, appended by statement triggers on task, folded into lane_depth by the reconciler."""

    lane_id = models.BigIntegerField()
    queued = models.IntegerField()
    scheduled = models.IntegerField()
    held = models.IntegerField()
    dead = models.IntegerField()

    class Meta:
        db_table = "lane_delta"


class LaneDepth(models.Model):
    """Folded counts of a lane; true depth = this row plus its unfolded lane_delta rows."""

    lane_id = models.BigIntegerField(primary_key=True)
    queued = models.BigIntegerField(default=0, db_default=0)
    scheduled = models.BigIntegerField(default=0, db_default=0)
    held = models.BigIntegerField(default=0, db_default=0)
    dead = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        db_table = "lane_depth"


class Decision(models.Model):
    """The picks of one recent cycle with candidates, deficits, runner-up and tier: a bounded ring."""

    pool = models.ForeignKey(Pool, models.CASCADE, db_index=False)
    cycle_no = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())
    assigned = models.IntegerField()
    by_class = models.JSONField(default=dict)
    by_tier = models.JSONField(default=dict, db_default={}, help_text="picks by class/tenant/tier")
    picks = models.JSONField()

    class Meta:
        db_table = "decision"
        indexes = [models.Index("pool", "at", name="decision_at")]
