"""The time, by the database's clock: the only one that decides anything (tests/core/test_clocks.py keeps it so)."""

from datetime import datetime

from dispatch.store import db


def now() -> datetime:
    """The moment at which the present transaction began, in UTC."""
    found: datetime = db.tuples("database_now")[0][0]
    return found
