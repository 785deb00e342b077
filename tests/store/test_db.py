"""The statement loader and its cursors."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from dispatch.store import db


@pytest.mark.django_db
def test_rows_tuples_and_one_run_on_djangos_connection() -> None:
    with transaction.atomic():
        assert db.one("database_now") == db.rows("database_now")[0]
        assert db.tuples("database_now")[0][0] == db.rows("database_now")[0]["now"]  # now() is the transaction's
        with connection.cursor() as cursor:
            cursor.execute("SELECT now()")
            assert cursor.fetchone()[0] == db.one("database_now")["now"]


def test_statement_names_are_unique_and_described() -> None:
    for name, body in db.statements().items():
        assert body.startswith("--"), f"{name} has no description"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [1, None, -(2**63), 2**63 - 1]),
        ("float8", [0.1, 1e-300, None, 3]),
        ("bool", [True, None, False]),
        ("text", ["", "NULL", None, 'a"b', "c\\d", "{e,f}", " g ", "\n", "h\u2028ü"]),
        ("text", []),
        ("timestamptz", [datetime(2026, 1, 2, 3, 4, tzinfo=UTC), None]),
    ],
)
def test_lists_arrive_as_they_are(kind: str, values: list[Any]) -> None:
    connection.ensure_connection()
    given = db._given({"values": values})
    found = connection.connection.execute(f"SELECT %(values)s::{kind}[]", given).fetchone()[0]
    assert found == values


@pytest.mark.django_db
def test_a_nul_in_a_list_of_texts_is_an_error_and_cuts_nothing() -> None:
    connection.ensure_connection()
    with pytest.raises(psycopg.DataError):
        connection.connection.execute("SELECT %(values)s::text[]", db._given({"values": ["a\0b"]}))
