"""Checkpoint: state that the next attempt of a task gets, kept under the lease's token.

A checkpoint replaces the one before; with `append` it is added to the task's journal instead, which only grows (and is
bounded). Both travel with the next delivery. Neither renews the lease nor counts as progress.
"""

import json
from typing import Any

from dispatch.core.cleaning import clean
from dispatch.core.states import State
from dispatch.errors import LeaseLost, NotFound, TooLarge
from dispatch.services import access, sessions
from dispatch.services.messages import Caller, Finished
from dispatch.store import db

MAX_ENTRIES = 1000
MAX_BYTES = 4 * 2**20  # of all appended entries of one task
SHOWN_ENTRIES = 20
SHOWN_CHARS = 4000  # of one entry


def checkpoint(caller: Caller, task_id: int, token: int, data: Any, *, append: bool = False) -> Finished:
    """Keep one checkpoint; the task's state. Raises NotFound, LeaseLost, TooLarge (the journal is full)."""
    cleaned, dirty = clean(data)
    text = json.dumps(cleaned)
    with db.atomic():
        _own(caller, task_id, token)
        if append:
            _check_room(task_id, len(text.encode()))
        else:
            db.execute("replace_checkpoint", {"task_id": task_id})
        db.execute("append_journal", {"task_ids": [task_id], "tokens": [token], "data": [text], "append": [append]})
    return Finished(state=State.LEASED.word, sanitized=dirty)


def journal(caller: Caller, task_id: int) -> list[dict[str, Any]] | None:
    """The newest entries for people (scope `read`), newest first: `at`, `append`, `text` (JSON, cut), `length`.

    None: payloads of this tenant are not shown to the caller.
    """
    task = access.see_task(caller, task_id, "read")
    if not access.views_payloads(caller, task["tenant_id"]):
        return None
    return db.rows("journal_newest", {"task_id": task_id, "limit": SHOWN_ENTRIES, "chars": SHOWN_CHARS})


def _own(caller: Caller, task_id: int, token: int) -> None:
    possible = 0 < task_id <= sessions.MAX_ID
    found = {"task_id": task_id, "token": token if 0 < token <= sessions.MAX_ID else 0}
    holder = db.one("lock_lease_for_checkpoint", found) if possible else None
    if holder is not None and sessions.owns(caller, holder):
        return
    known = db.rows("ended_attempts", {"task_ids": [task_id], "tokens": [0]})[0] if possible else {"id": None}
    if known["id"] is None or not sessions.sees(caller, known):
        raise NotFound("There is no such task.")
    raise LeaseLost("The lease ended, or it was never this caller's.")


def _check_room(task_id: int, more: int) -> None:
    entries, held = db.tuples("journal_size", {"task_id": task_id})[0]
    if entries >= MAX_ENTRIES or held + more > MAX_BYTES:
        raise TooLarge(f"The journal of a task holds at most {MAX_ENTRIES} entries and {MAX_BYTES >> 20} MiB.")
