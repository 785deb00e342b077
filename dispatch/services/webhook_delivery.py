"""Delivering webhook messages: take some, send them, write down what became of each. The messenger calls this.

At least once: whoever takes a message holds it for HOLD_S, and one whose holder died is sent again, under the same
message id. Any number of messengers may run. An address that fails is tried with one message at a time, every minute at
most; each message is tried by itself over about a day. After DISABLE_S without a success, at MAX_WAITING messages, or
when it answers 410 Gone, the webhook is switched off with an alert.
"""

import json
import random
import time
from collections.abc import Mapping
from typing import Any

from dispatch.core import webhooks as core
from dispatch.core.alerting import Finding
from dispatch.services import alerts, mail, outbound
from dispatch.services.webhooks import RULE, keys_of, message_id, subject
from dispatch.store import db

HOLD_S = 60.0  # longer than any try
EACH = 8  # messages on their way to one address
QUIET_S = 60.0  # between two tries at an address that fails
DISABLE_S = 24 * 3600.0
MAX_WAITING = 100_000
KEEP = 10_000  # messages in the log of one webhook
GONE = 410
JSON = {"Content-Type": "application/json", "User-Agent": "Evenflow-Webhooks/1"}

Message = dict[str, Any]  # one row of the statement take_deliveries


def take(limit: int, busy: Mapping[int, int]) -> list[Message]:
    """At most `limit` due messages, now in this process's hands; `busy`: how many are on their way, by webhook."""
    params = {"limit": limit, "each": EACH, "hold_s": HOLD_S, "busy_ids": list(busy), "busy": list(busy.values())}
    with db.atomic():
        return db.rows("take_deliveries", params)


def send(message: Message) -> outbound.Sent:
    """One try; raises nothing and needs no database."""
    if message["kind"] == "email":
        event, data = message["type"], message["data"]
        return mail.send(message["url"], core.sentence(event, data), core.text(event, data))
    if message["kind"] == "slack":
        text = core.text(message["type"], message["data"])
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return outbound.post(message["url"], json.dumps({"text": escaped}).encode(), JSON)
    timestamp, name = int(time.time()), message_id(message["message"])
    at = message["created_at"].isoformat().replace("+00:00", "Z")
    body = json.dumps({"type": message["type"], "timestamp": at, "data": message["data"]}, separators=(",", ":"))
    keys = keys_of(message["webhook_id"], message["generation"], message["both_secrets"])
    headers = {
        **JSON,
        "webhook-id": name,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": core.sign(keys, name, timestamp, body.encode()),
    }
    return outbound.post(message["url"], body.encode(), headers)


def record(message: Message, sent: outbound.Sent) -> None:
    """Write down what became of a try, on the message and on its webhook."""
    told = {"id": message["id"], "status": sent.status, "latency_ms": sent.latency_ms, "response": sent.excerpt}
    with db.atomic():
        if sent.arrived:
            db.execute("mark_delivered", told)
            db.execute("mark_answering", {"id": message["webhook_id"], "hold_s": HOLD_S})
            return
        delay = core.retry_after(message["tries"], random.random())  # noqa: S311  # spreads tries, guards nothing
        if delay is not None and sent.retry_after_s is not None:
            delay = max(delay, sent.retry_after_s)
        db.execute("mark_failed", told | {"error": sent.error, "delay_s": delay, "tries": message["tries"]})
        quiet = {"id": message["webhook_id"], "quiet_s": min(delay or QUIET_S, QUIET_S)}
        failing = db.one("mark_failing", quiet)
        if sent.status == GONE:
            _disable(message["webhook_id"], "The receiver answered 410: it is gone.")
        elif failing and failing["failing_s"] > DISABLE_S:
            _disable(message["webhook_id"], f"Nothing arrived for {DISABLE_S / 3600:.0f} hours. {sent.error}")


def tidy() -> int:
    """Switch off what is hopelessly behind, forget old messages; how many were forgotten."""
    for (webhook_id,) in db.tuples("flooded_webhooks", {"most": MAX_WAITING}):
        with db.atomic():
            _disable(webhook_id, f"More than {MAX_WAITING} messages waited. GET /api/v1/tasks/changes has them all.")
    with db.atomic():
        return db.execute("prune_deliveries", {"keep": KEEP}) + db.execute("drop_orphan_deliveries")


def _disable(webhook_id: int, note: str) -> None:
    row = db.one("disable_webhook", {"id": webhook_id, "note": note})
    if row is None:
        return
    finding = Finding(
        rule=RULE,
        subject=subject(webhook_id),
        severity="warning",
        text=f"The webhook {row['name']} was switched off. {note}",
        evidence={"webhook": webhook_id, "note": note},
        tenant_id=row["tenant_id"],
        pool_id=row["pool_id"],
    )
    alerts.raise_all([finding])
