"""The Idempotency-Key header: a repeat gets the first answer (24 h, per API key and path).

Another body under the same key is `key-reused`, the first still running is `conflict` with Retry-After (services/
idempotency.py). Only successes are kept: a refused call may be corrected and sent again under the same key.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from dispatch.api.problems import Answer, answer
from dispatch.errors import Invalid
from dispatch.services import idempotency
from dispatch.services.messages import Caller

MOST = 200  # characters of a key


def check(key: str) -> None:
    """Raise Invalid for a key that cannot be one."""
    if not 1 <= len(key) <= MOST or not key.isprintable():
        raise Invalid(("Idempotency-Key", f"must be 1 to {MOST} printable characters"))


def once(
    caller: Caller, path: str, key: str, body: bytes, make: Callable[[], Answer], *, withheld: str | None = None
) -> Answer:
    """Run `make` unless this key was answered before; then give that answer again (without the field `withheld`)."""
    check(key)
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


def once_many(
    asked: Sequence[idempotency.Asked | None], make: Callable[[Sequence[int]], Sequence[Answer | Exception]]
) -> list[Answer | Exception]:
    """The same for several calls, those without a key (None) among them; `make` is told which ones are to be made."""
    answers: list[Answer | Exception | None] = [None] * len(asked)
    keyed = {n: one for n, one in enumerate(asked) if one is not None}
    for n, first in zip(keyed, idempotency.begin_many(list(keyed.values())) if keyed else (), strict=True):
        if first is not None:
            answers[n] = first if isinstance(first, Exception) else answer(*first)
    left = [n for n, found in enumerate(answers) if found is None]
    try:
        made = list(make(left))
    except BaseException:
        idempotency.finish_many([(keyed[n], None, None) for n in left if n in keyed])
        raise
    answers_of = dict(zip(left, made, strict=True))
    ended = [(keyed[n], *_kept(answers_of[n])) for n in left if n in keyed]
    if ended:
        idempotency.finish_many(ended)
    return [found if found is not None else answers_of[n] for n, found in enumerate(answers)]


def _kept(made: Answer | Exception) -> tuple[int | None, Any]:
    if isinstance(made, Exception):
        return None, None
    status, _, packed = made
    return status, orjson.loads(packed) if packed else None
