"""Whether this installation can do its work, for load balancers and starters: no login, no details."""

import contextlib
import queue
import threading

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from dispatch.store import db

DISPATCHER_PULSE_S = 5.0
PATIENCE_S = 1.5

_migrated = False  # once true it stays true for this process
_asking = threading.Lock()


def missing_part_soon(patience_s: float = PATIENCE_S) -> str | None:
    """The same within `patience_s` seconds: a database that has not answered by then is missing.

    The question goes on in a thread of its own, and only one at a time does: a database that hangs, or a pool of
    connections that waits for it, holds one thread however often it is asked.
    """
    if not _asking.acquire(timeout=patience_s):
        return "database"
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(missing_part())
        finally:
            with contextlib.suppress(DatabaseError):
                connection.close()
            _asking.release()

    threading.Thread(target=ask, name="evenflow-ready", daemon=True).start()
    try:
        return answers.get(timeout=patience_s)
    except queue.Empty:
        return "database"


def missing_part() -> str | None:
    """The first part that is not ready: "database", "migrations" or "dispatcher"; None when all are."""
    global _migrated
    try:
        if not _migrated:
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return "migrations"
            _migrated = True
        found = db.one("dispatcher_beats", {"within_s": DISPATCHER_PULSE_S})
    except DatabaseError:
        return "database"
    return None if found and found["beats"] else "dispatcher"
