"""What webhooks are told: the messages about tasks come from a trigger, all others through here.

A module of its own, so that whoever raises an alert can tell of it without knowing how webhooks are managed.
"""

import json
from collections.abc import Mapping
from typing import Any

from dispatch.core.webhooks import EVENTS
from dispatch.store import db


def enqueue(event: str, data: Mapping[str, Any], tenant_id: int | None = None, pool_id: int | None = None) -> int:
    """Tell the webhooks that listen to `event` (one of EVENTS), inside the caller's transaction; how many there are.

    `data` is the message's content, plain JSON values (times become text); `tenant_id`, `pool_id`: whose event it is.
    """
    assert event in EVENTS, event
    params = {"type": event, "data": json.dumps(data, default=str), "tenant_id": tenant_id, "pool_id": pool_id}
    return db.execute("enqueue_webhook", params)
