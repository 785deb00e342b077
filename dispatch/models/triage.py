"""What people decided about groups of dead letters, and the views of the task list that they keep."""

from django.db import models
from django.db.models.functions import Now


class DeadGroup(models.Model):
    """The triage of one fingerprint, for the whole installation; a group without a row is open and nobody's."""

    fingerprint = models.CharField(max_length=200, unique=True)
    status = models.CharField(max_length=16, default="open", db_default="open", help_text="open, resolved or ignored")
    status_at = models.DateTimeField(db_default=Now())
    ignore_above_per_h = models.FloatField(null=True, help_text="ignored until more die in an hour")
    ignore_above_total = models.IntegerField(null=True, help_text="ignored until the group is larger")
    assignee = models.TextField(default="", db_default="")
    note = models.TextField(default="", db_default="")
    version = models.IntegerField(default=1, db_default=1)
    updated_at = models.DateTimeField(db_default=Now())
    updated_by = models.TextField(default="", db_default="")

    class Meta:
        db_table = "dead_group"


class SavedView(models.Model):
    """A search line kept under a name: for its owner, for the members of a tenant, or for everybody."""

    name = models.CharField(max_length=80)
    query = models.CharField(max_length=1000)
    owner = models.ForeignKey("dispatch.User", models.CASCADE, related_name="+")
    audience = models.CharField(max_length=8, help_text="private, tenant or everyone")
    tenant = models.ForeignKey("dispatch.Tenant", models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "saved_view"
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_view_name")]
