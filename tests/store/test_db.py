"""The statement loader and its cursors."""

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
