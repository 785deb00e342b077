"""How many calls a key may make: a token bucket per key and web process (EVENFLOW_API_PER_MINUTE; 0: no limit).

A bucket holds a tenth of a minute's calls, so a burst passes and a flood does not. Generous: it protects the process
from one runaway client; what a tenant may submit is its quota (services/limits.py). People are not counted.
"""

import threading
import time

from django.conf import settings

from dispatch.errors import RateLimited
from dispatch.services.messages import Caller

BURST_S = 6.0  # seconds' worth of calls that may come at once
MOST = 10_000  # buckets kept; full ones are forgotten first

_lock = threading.Lock()
_buckets: dict[int, tuple[float, float]] = {}  # key → (calls left, when that was)


def spend(caller: Caller, now: float | None = None) -> None:
    """Count one call of a key; RateLimited, with the seconds to wait, when it has none left."""
    per_minute = settings.EVENFLOW_API_PER_MINUTE
    if not per_minute or caller.kind != "key" or caller.id is None:
        return
    rate = per_minute / 60.0
    most = max(1.0, rate * BURST_S)
    moment = time.monotonic() if now is None else now
    with _lock:
        left, at = _buckets.get(caller.id, (most, moment))
        left = min(most, left + (moment - at) * rate)
        if left >= 1.0:
            left -= 1.0
            wait = 0.0
        else:
            wait = (1.0 - left) / rate
        _buckets[caller.id] = (left, moment)
        if len(_buckets) > MOST:
            _forget(moment, rate, most)
    if wait:
        raise RateLimited(f"This key may make {per_minute} calls a minute.", retry_after_s=wait)


def _forget(now: float, rate: float, most: float) -> None:
    """Drop buckets that are full again: forgetting them changes nothing."""
    for key in [key for key, (left, at) in _buckets.items() if left + (now - at) * rate >= most]:
        del _buckets[key]


def reset() -> None:
    """Forget all buckets (tests)."""
    with _lock:
        _buckets.clear()
