"""Index leases by session and token."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0020_audit_chain")]
    operations = [
        migrations.RemoveIndex(model_name="lease", name="lease_session"),
        migrations.AddIndex(
            model_name="lease",
            index=models.Index(models.F("session"), models.F("token"), name="lease_session"),
        ),
    ]
