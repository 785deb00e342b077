"""manage.py up: the whole product in one terminal (dispatch/jobs/launch.py)."""

import argparse
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dispatch.jobs import launch
from dispatch.jobs.prepare import Refused
from dispatch.store.embedded import EmbeddedError


def port(text: str) -> int:
    """A TCP port; 0 takes a free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0..65535)")
    return int(text)


class Command(BaseCommand):
    """Starts everything, stops everything."""

    help = "Run Evenflow: PostgreSQL (unless DATABASE_URL is set), web and cluster."
    requires_system_checks: list[str] = []  # the database is not there yet
    launcher = launch.Launch

    def add_arguments(self, parser: CommandParser) -> None:
        """The options of the README."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
        parser.add_argument("--port", type=port, default=8000, help="TCP port; 0 takes a free one")
        parser.add_argument("--data", metavar="DIR", help="data directory (default: EVENFLOW_DATA, else ./.data)")
        parser.add_argument("--ready-file", metavar="PATH", type=Path, help="where to write JSON once it is ready")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until Ctrl-C or SIGTERM; every refusal is one sentence."""
        chosen = launch.Options(
            host=options["host"], port=options["port"], ready_file=options["ready_file"], say=self.say
        )
        try:
            self.launcher(chosen).run()
        except (Refused, EmbeddedError) as error:
            sys.exit(str(error))

    def say(self, line: str) -> None:
        """One line for the person at the terminal, at once also through a pipe."""
        self.stdout.write(line)
        self.stdout.flush()
