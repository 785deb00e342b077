"""Named statements on Django's own connection: loader, raw cursors, transactions, hints.

Statements live in store/sql/*.sql, each under a line `-- name: verb_object` followed by comments that say what it
does. Parameters are named (`%(task_ids)s`). They run on a raw psycopg cursor (server-side binding, binary results,
prepared after five uses) of the connection that Django manages for this thread, inside Django's transaction.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection, transaction
from psycopg import sql
from psycopg.rows import TupleRow, dict_row

from dispatch import events

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)

atomic = transaction.atomic


@functools.cache
def statements() -> dict[str, str]:
    """All named statements of the room; a doubled name is an error at first use."""
    found: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / "sql").glob("*.sql")):
        parts = _NAME.split(path.read_text())
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise RuntimeError(f"{path.name}: statement {name} exists twice")
            found[name] = body.strip()
    return found


def _raw() -> "psycopg.Connection[TupleRow]":
    connection.ensure_connection()
    raw: psycopg.Connection[TupleRow] = connection.connection
    return raw


def _array(value: list[Any]) -> Any:
    """A list of numbers, truth values or texts as PostgreSQL's array literal: psycopg needs ten times as long for its
    own, which is a quarter of what the statements of a batch cost here. Every statement casts its arrays."""
    kinds = {type(item) for item in value} - {type(None)}
    if kinds == {str}:
        return "{" + ",".join("NULL" if item is None else f'"{_escape(item)}"' for item in value) + "}"
    if kinds <= {int, float, bool}:
        return "{" + ",".join("NULL" if item is None else str(item) for item in value) + "}"
    return value


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"' in text or "\\" in text else text


def _given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if params is None:
        return None
    return {key: _array(value) if isinstance(value, list) else value for key, value in params.items()}


def rows(name: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Run a named statement and return its rows as dictionaries."""
    with connection.wrap_database_errors, psycopg.Cursor(_raw(), row_factory=dict_row) as cursor:
        cursor.execute(statements()[name], _given(params), binary=True)
        return cursor.fetchall() if cursor.description else []


def tuples(name: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Run a named statement and return its rows as tuples (the hot path)."""
    with connection.wrap_database_errors, psycopg.Cursor(_raw()) as cursor:
        cursor.execute(statements()[name], _given(params), binary=True)
        return cursor.fetchall() if cursor.description else []


def one(name: str, params: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The only row of a named statement, or None."""
    found = rows(name, params)
    return found[0] if found else None


def execute(name: str, params: Mapping[str, Any] | None = None) -> int:
    """Run a named statement for its effect; the number of rows it touched."""
    with connection.wrap_database_errors, psycopg.Cursor(_raw()) as cursor:
        cursor.execute(statements()[name], _given(params))
        return cursor.rowcount


def composed(query: sql.Composed, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a statement that was put together by psycopg.sql inside this room; planned afresh for its values."""
    with connection.wrap_database_errors, psycopg.Cursor(_raw(), row_factory=dict_row) as cursor:
        cursor.execute(query, params, prepare=False, binary=True)
        return cursor.fetchall() if cursor.description else []


def hint(channel: str, ids: Iterable[int] | str = ()) -> None:
    """NOTIFY at commit, in payloads of at most MAX_IDS ids (8000-byte limit); hints may be lost, all poll too."""
    hints({channel: ids})


def hints(news: Mapping[str, Iterable[int] | str]) -> None:
    """Several channels in one statement; a channel without ids is left out."""
    pairs = [(channel, payload) for channel, ids in news.items() for payload in payloads(ids)]
    if pairs:
        execute("notify", {"channels": [pair[0] for pair in pairs], "payloads": [pair[1] for pair in pairs]})


def payloads(ids: Iterable[int] | str) -> list[str]:
    """The payloads of a hint."""
    if isinstance(ids, str):
        return [ids]
    unique = sorted(set(ids))
    return [
        ",".join(map(str, unique[start : start + events.MAX_IDS])) for start in range(0, len(unique), events.MAX_IDS)
    ]
