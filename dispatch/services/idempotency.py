"""Idempotency-Key: the first answer to a key is given again for 24 h, per API key and path.

A record is made before the call runs and committed at once, so that a second call meets it: still running → Conflict
with `retry_after_s`; other content → KeyReused. People and our own processes are told apart from keys by the sign of
the owner.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from dispatch.errors import Conflict, EvenflowError, KeyReused
from dispatch.services.messages import Caller
from dispatch.store import db

RETRY_RUNNING_S = 1.0
TRIES = 3


class Asked(NamedTuple):
    """One call with an Idempotency-Key."""

    caller: Caller
    path: str
    key: str
    body_hash: bytes


def _owner(caller: Caller) -> int:
    return (caller.id or 0) if caller.kind == "key" else -(caller.id or 0)


def begin(caller: Caller, path: str, key: str, body_hash: bytes) -> tuple[int, Any] | None:
    """None when this call is the first (go on, then `finish` or `abandon`), else status and answer of the first."""
    where = {"owner": _owner(caller), "path": path, "key": key}
    for _ in range(TRIES):
        if db.one("begin_idempotent", {**where, "body_hash": body_hash}):
            return None
        first = db.one("find_idempotent", where)
        if first is not None:
            break
    else:
        raise Conflict("The first call with this Idempotency-Key is ending.", retry_after_s=RETRY_RUNNING_S)
    if bytes(first["body_hash"]) != body_hash:
        raise KeyReused("This Idempotency-Key came with another body before.")
    if first["status"] is None:
        raise Conflict("The first call with this Idempotency-Key is still running.", retry_after_s=RETRY_RUNNING_S)
    return first["status"], first["answer"]


def begin_many(asked: Sequence[Asked]) -> list[tuple[int, Any] | EvenflowError | None]:
    """`begin` for several calls at once, in one transaction; a refusal stands for its call."""
    found: list[tuple[int, Any] | EvenflowError | None] = [None] * len(asked)
    order = sorted(range(len(asked)), key=lambda n: (_owner(asked[n].caller), asked[n].path, asked[n].key))
    with db.atomic():
        for n in order:
            try:
                found[n] = begin(asked[n].caller, asked[n].path, asked[n].key, asked[n].body_hash)
            except EvenflowError as error:
                found[n] = error
    return found


def finish_many(ended: Sequence[tuple[Asked, int | None, Any]]) -> None:
    """`finish` for several calls at once; a status of None: `abandon`."""
    order = sorted(ended, key=lambda one: (_owner(one[0].caller), one[0].path, one[0].key))
    with db.atomic():
        for asked, status, answer in order:
            if status is None:
                abandon(asked.caller, asked.path, asked.key)
            else:
                finish(asked.caller, asked.path, asked.key, status, answer)


def finish(caller: Caller, path: str, key: str, status: int, answer: Any) -> None:
    """Keep the answer (plain JSON) for repeats."""
    where = {"owner": _owner(caller), "path": path, "key": key}
    db.execute("finish_idempotent", {**where, "status": status, "answer": json.dumps(answer)})


def abandon(caller: Caller, path: str, key: str) -> None:
    """The first call failed: the key is free again."""
    db.execute("abandon_idempotent", {"owner": _owner(caller), "path": path, "key": key})
