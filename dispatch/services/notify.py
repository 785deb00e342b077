"""Tells webhooks, Slack and e-mail about alerts: what fires and holds, what was acknowledged, what is over.

Run by the reconciler each second. One message for all alerts of one rule, pool and tenant that changed together. An
alert is told when it has held for EVENFLOW_ALERT_WAIT_S, again when it gets worse, when its acknowledgement ends, and
every EVENFLOW_ALERT_REPEAT_S. Muted alerts are not told. Delivery, retry and log are those of webhooks.
"""

from itertools import groupby
from typing import Any

from django.conf import settings

from dispatch.services import alert_mail, webhook_events
from dispatch.store import db

MOST = 50  # alerts in one message; the others are counted
SHOWN = (
    *("id", "rule", "subject", "severity", "state", "text", "evidence", "pool", "class", "tenant"),
    *("fired_at", "resolved_at", "acked_by", "acked_until", "note"),
)

Row = dict[str, Any]


def tell() -> int:
    """Write the messages about all that changed; how many alerts they tell of."""
    waits = {"wait_s": settings.EVENFLOW_ALERT_WAIT_S, "repeat_s": settings.EVENFLOW_ALERT_REPEAT_S}
    with db.atomic():
        found = db.rows("untold_alerts", waits)
        for _, together in groupby(sorted(found, key=_group), key=_group):
            _enqueue(list(together))
        if found:
            db.execute("mark_told", {"ids": [row["id"] for row in found], "states": [row["state"] for row in found]})
    return len(found)


def _group(row: Row) -> tuple[str, str, int, int]:
    return row["state"], row["rule"], row["pool_id"] or 0, row["tenant_id"] or 0


def _enqueue(rows: list[Row]) -> None:
    first = rows[0]
    data = {
        "rule": first["rule"],
        "pool": first["pool"],
        "tenant": first["tenant"],
        "count": len(rows),
        "alerts": [{name: row[name] for name in SHOWN} for row in rows[:MOST]],
    }
    webhook_events.enqueue(f"alert.{first['state']}", data, first["tenant_id"], first["pool_id"])
    if first["state"] == "firing":
        alert_mail.enqueue(rows, first["tenant_id"])
