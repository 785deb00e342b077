"""Connections of their own, beside Django's: for LISTEN and for the locks of leaders. Autocommit; never pooled."""

from typing import Any

import psycopg
from django.db import connection
from psycopg.rows import TupleRow

_DJANGOS_OWN = ("context", "cursor_factory", "prepare_threshold", "pool", "server_side_binding")

Connection = psycopg.Connection[TupleRow]
Error = psycopg.Error


def parameters(name: str) -> dict[str, Any]:
    """What libpq needs to reach Django's database, under an application name that shows in pg_stat_activity."""
    given = connection.get_connection_params()
    wanted = {key: value for key, value in given.items() if key not in _DJANGOS_OWN}
    return {**wanted, "connect_timeout": 5, "application_name": f"evenflow {name}"}


def connect(name: str) -> Connection:
    """A new connection; raises psycopg.OperationalError while the database is away."""
    return psycopg.connect(**parameters(name), autocommit=True)


async def connect_async(name: str) -> psycopg.AsyncConnection[TupleRow]:
    """The same for an event loop."""
    return await psycopg.AsyncConnection.connect(**parameters(name), autocommit=True)
