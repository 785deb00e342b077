"""The Idempotency-Key header: a repeat gets the first answer (24 h, per API key and path).

Another body under the same key is `key-reused`, the first still running is `conflict` with Retry-After (services/
idempotency.py). Only successes are kept: a refused call may be corrected and sent again under the same key.
"""

import hashlib
from collections.abc import Callable

import orjson

from dispatch.api.problems import Answer, answer
from dispatch.errors import Invalid
from dispatch.services import idempotency
from dispatch.services.messages import Caller

MOST = 200  # characters of a key


def once(
    caller: Caller, path: str, key: str, body: bytes, make: Callable[[], Answer], *, withheld: str | None = None
) -> Answer:
    """Run `make` unless this key was answered before; then give that answer again (without the field `withheld`)."""
    if not 1 <= len(key) <= MOST or not key.isprintable():
        raise Invalid(("Idempotency-Key", f"must be 1 to {MOST} printable characters"))
    first = idempotency.begin(caller, path, key, hashlib.sha256(body).digest())
    if first is not None:
        return answer(*first)
    try:
        status, headers, packed = make()
    except BaseException:
        idempotency.abandon(caller, path, key)
        raise
    kept = orjson.loads(packed) if packed else None
    idempotency.finish(caller, path, key, status, {**kept, withheld: None} if withheld and kept else kept)
    return status, headers, packed
