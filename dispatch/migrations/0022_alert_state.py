"""The state of an alert, told in one place: an acknowledgement holds until its time, and not above its severity."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION alert_state(a alert) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN a.resolved_at IS NOT NULL THEN 'resolved'
                WHEN a.acked_at IS NOT NULL AND (a.acked_until IS NULL OR a.acked_until > now())
                     AND array_position(ARRAY['info', 'warning', 'critical'], a.severity::text)
                         <= array_position(ARRAY['info', 'warning', 'critical'], a.acked_severity::text)
                THEN 'acknowledged' ELSE 'firing' END
$$
"""


class Migration(migrations.Migration):
    """Used by sql/alerts.sql and sql/metrics.sql."""

    dependencies = [("dispatch", "0021_lease_session_token")]
    operations = [migrations.RunSQL(FORWARD, "DROP FUNCTION alert_state(alert)")]
