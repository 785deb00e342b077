"""manage.py audit verify: walk the chain of the audit and name every entry that is not what was chained."""

import re
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dispatch.services import audit_chain

SHOWN = 100


class Command(BaseCommand):
    """Verifies; changes nothing."""

    help = "Verify the audit: names changed, removed and inserted entries. Exit code 1 when there are any."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One action so far."""
        parser.add_argument("action", choices=["verify"])
        parser.add_argument("--expect", default="", metavar="PLACE:HASH", help="a head that was noted earlier")

    def handle(self, *_: Any, expect: str = "", **__: Any) -> None:
        """Print one line for each fault, and the head to note."""
        if expect and not re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", expect):
            raise CommandError("--expect is what an earlier run printed as the head.")
        verdict = audit_chain.verify(expect)
        for fault in verdict.faults[:SHOWN]:
            self.stdout.write(f"{fault.kind}: {fault.text}")
        if len(verdict.faults) > SHOWN:
            self.stdout.write(f"and {len(verdict.faults) - SHOWN} more")
        self.stdout.write(f"{verdict.links} entries in the chain, head {verdict.head}")
        if verdict.faults:
            sys.exit(1)
