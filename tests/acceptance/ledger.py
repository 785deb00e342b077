"""The running product's database, read from outside (and moved in time where a case asks for that)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from dispatch.store.embedded import database_settings
from tests.acceptance.harness import Product


class Ledger:
    """Short connections, so that a killed PostgreSQL costs a test nothing."""

    def __init__(self, product: Product) -> None:
        told = database_settings("", product.data)
        self._address = {"dbname": told["NAME"], "user": told["USER"], "host": told["HOST"]}

    @contextmanager
    def connection(self) -> Iterator["psycopg.Connection[dict[str, Any]]"]:
        """One connection, committed at the end."""
        with psycopg.connect(**self._address, row_factory=dict_row) as made:
            yield made

    def rows(self, statement: LiteralString, **params: Any) -> list[dict[str, Any]]:
        """All rows of one statement."""
        with self.connection() as connection:
            return connection.execute(statement, params).fetchall()

    def one(self, statement: LiteralString, **params: Any) -> dict[str, Any]:
        """The only row."""
        (row,) = self.rows(statement, **params)
        return row

    def execute(self, statement: LiteralString, **params: Any) -> int:
        """Change rows; how many."""
        with self.connection() as connection:
            return connection.execute(statement, params).rowcount

    def states(self) -> dict[str, int]:
        """Tasks by state."""
        words = ["scheduled", "queued", "leased", "held", "succeeded", "dead", "cancelled"]
        counted = self.rows("select state, count(*) as n from task group by state")
        return {words[row["state"]]: row["n"] for row in counted}
