"""Query plans of named and composed statements, for guards that the backlog is never scanned."""

from collections.abc import Mapping
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql

from dispatch.store import db


def plan_of(statement: str | sql.Composed, params: Mapping[str, Any]) -> str:
    """EXPLAIN of a named statement, or of one that was put together, with these parameters."""
    connection.ensure_connection()
    query = sql.SQL(db.statements()[statement]) if isinstance(statement, str) else statement  # type: ignore[arg-type]
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(sql.SQL("EXPLAIN ") + query, params, prepare=False)
        return "\n".join(row[0] for row in cursor.fetchall())
