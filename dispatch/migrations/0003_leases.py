"""What leases need beyond the first cut: the gap-free start of a pulse, the state an attempt left its task in."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds process.up_since and attempt.state (attempt is partitioned, hence unmanaged)."""

    dependencies = [("dispatch", "0002_datapath")]
    operations = [
        migrations.AddField(
            model_name="process",
            name="up_since",
            field=models.DateTimeField(
                db_default=django.db.models.functions.datetime.Now(),
                help_text="since when it has pulsed without a gap",
            ),
        ),
        migrations.RunSQL("ALTER TABLE attempt ADD COLUMN state smallint", "ALTER TABLE attempt DROP COLUMN state"),
    ]
