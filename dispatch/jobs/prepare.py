"""Makes an installation ready for this version: database reachable, new enough, migrated; static files; an operator."""

from django.core.management import call_command
from django.db import DatabaseError, NotSupportedError, connection

from dispatch.services import installation
from dispatch.store import db
from dispatch.store.programs import MINIMUM


class Refused(Exception):
    """The start is refused; the message is one sentence for the operator."""


def check_database() -> None:
    """Raise Refused unless PostgreSQL answers and is new enough."""
    try:
        connection.ensure_connection()
        version = connection.pg_version // 10000  # type: ignore[attr-defined]
    except NotSupportedError as error:
        raise Refused(f"{error} Evenflow needs PostgreSQL {MINIMUM} or newer.") from None
    except DatabaseError as error:
        raise Refused(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}") from None
    if version < MINIMUM:
        raise Refused(f"PostgreSQL {MINIMUM} or newer is needed; DATABASE_URL leads to PostgreSQL {version}.")


def prepare() -> tuple[str, str] | None:
    """Check, migrate, collect static files, make the first operator: its address and password, None where there is one.

    Several machines may prepare the same database at once: they take turns.
    """
    check_database()
    db.one("lock_installation")
    try:
        call_command("migrate", verbosity=0, interactive=False)
        call_command("collectstatic", verbosity=0, interactive=False)
        return installation.first_operator()
    finally:
        db.one("unlock_installation")
