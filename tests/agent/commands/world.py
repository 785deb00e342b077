"""What the tests of the commands share."""

from typing import Any

Run = Any


def task(number: int, **more: Any) -> dict[str, Any]:
    plain = {"id": number, "state": "queued", "class": "batch", "tenant": "sales", "user": "-", "type": "index"}
    return {**plain, "attempts": 0, "losses": 0, "lease": None, "queue_age_s": 12.5, "error": None, **more}
