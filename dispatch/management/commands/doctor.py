"""manage.py doctor: examine this installation and say what to do; exit code 1 when something is broken."""

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dispatch.services import doctor

SIGNS = {doctor.OK: "ok  ", doctor.WARN: "warn", doctor.FAIL: "FAIL"}


class Command(BaseCommand):
    """Prints a line for each finding, what to do below it, or all of it as JSON."""

    help = "Examine configuration, database, clocks, processes, work and indexes; say what to do."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """--json."""
        parser.add_argument("--json", action="store_true", help="as JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        """Examine; exit 1 after a FAIL."""
        found = doctor.examine()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(check) for check in found], indent=2))
        else:
            for check in found:
                self.stdout.write(f"{SIGNS[check.level]}  {check.name}: {check.text}")
                if check.advice:
                    self.stdout.write(f"      → {check.advice}")
        if doctor.worst(found) == doctor.FAIL:
            sys.exit(1)
