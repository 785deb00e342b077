"""What webhooks tell, how a message is signed, and when a failed one is tried again.

Signing follows Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`, the secret `whsec_` and
base64, several signatures with spaces between them while a secret is being rotated.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

ENDS = ("task.succeeded", "task.dead", "task.cancelled")
ALERTS = ("alert.firing", "alert.acknowledged", "alert.resolved")
EVENTS = ENDS + ALERTS
KINDS = ("standard", "slack", "email")
TEST = "webhook.test"  #: sent on demand, whatever was subscribed to

FIRST_S = 5.0
GROWTH = 3
LONGEST_S = 4 * 3600.0
MAX_TRIES = 15  #: over about 28 hours


def retry_after(tries: int, jitter: float) -> float | None:
    """Seconds until the next try after `tries` failed ones: 5, 15, 45 … 4 h, each times 0.75..1.25; None: give up.

    `jitter` is a number from 0 to 1.
    """
    if tries >= MAX_TRIES:
        return None
    delay: float = min(LONGEST_S, FIRST_S * GROWTH ** (tries - 1))
    return delay * (0.75 + jitter / 2)


def secret(key: bytes) -> str:
    """The text of a signing key, as the receiver gets it."""
    return "whsec_" + base64.b64encode(key).decode()


def sign(keys: Sequence[bytes], message: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature` of one try; `timestamp` in seconds since 1970."""
    signed = f"{message}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)


def sentence(event: str, data: Mapping[str, Any]) -> str:
    """The subject line of a message for people."""
    if event in ALERTS:
        found = data["alerts"]
        first = f"{event.removeprefix('alert.').capitalize()}: {found[0]['text']}"
        return first if data["count"] == 1 else f"{first} ({data['count']} alerts of {data['rule']})"
    if event in ENDS:
        return f"Task {data.get('id')} {event.removeprefix('task.')}"
    return f"A test of {data.get('name')} by {data.get('by')}"


def text(event: str, data: Mapping[str, Any]) -> str:
    """A message for people: what is so, line by line."""
    lines = [sentence(event, data)]
    if event in ALERTS:
        lines = [
            f"{event.removeprefix('alert.').capitalize()} ({one['severity']}): {one['text']}"
            + (f" Note: {one['note']}" if one["note"] else "")
            for one in data["alerts"]
        ]
        if data["count"] > len(data["alerts"]):
            lines.append(f"And {data['count'] - len(data['alerts'])} more.")
    return "\n".join(lines)
