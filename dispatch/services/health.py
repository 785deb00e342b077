"""Whether this installation can do its work, for load balancers and starters: no login, no details."""

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from dispatch.store import db

DISPATCHER_PULSE_S = 5.0

_migrated = False  # once true it stays true for this process


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
