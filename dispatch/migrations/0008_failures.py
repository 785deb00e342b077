"""An index over failed attempts only: what quarantine and breakers look at, a small part of all attempts."""

from django.db import migrations

FORWARD = "CREATE INDEX attempt_failed ON attempt (ended_at) WHERE outcome IN (1, 3, 4)"


class Migration(migrations.Migration):
    """Attempt is partitioned, hence unmanaged."""

    dependencies = [("dispatch", "0007_yield_bounds")]
    operations = [migrations.RunSQL(FORWARD, "DROP INDEX attempt_failed")]
