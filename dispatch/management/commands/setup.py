"""manage.py setup: make a database ready before web and cluster start on their own (production)."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from dispatch.jobs import prepare


class Command(BaseCommand):
    """Migrates, and makes the first operator."""

    help = "Check PostgreSQL, migrate, and make the first operator (its password is shown once)."
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        """Do it; a second time changes nothing."""
        try:
            made = prepare.prepare()
        except prepare.Refused as error:
            sys.exit(str(error))
        self.stdout.write("The database is ready.")
        if made:
            self.stdout.write(f"Sign in as {made[0]} with the password {made[1]} and change it.")
