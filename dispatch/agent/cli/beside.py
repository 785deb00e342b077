"""`evenflow simulate`: a management command of a server, run where its `manage.py` is.

It needs the server's code, so it exists only in a checkout; elsewhere the command says so.
"""

import argparse
import os
import sys
from pathlib import Path

from dispatch.agent.cli import exits
from dispatch.agent.cli.grammar import Grammar
from dispatch.agent.cli.output import Output

MANAGE = Path(__file__).resolve().parents[3] / "manage.py"


def add(commands: Grammar) -> None:
    """Declare the command."""
    help = "try a policy on recorded or made-up load (manage.py simulate, in the server's checkout)"
    commands.command("simulate", help).set_defaults(run=run, verb="simulate")


def run(args: argparse.Namespace, out: Output) -> int:
    """Become `manage.py VERB …` with the options that this program does not know."""
    if not MANAGE.is_file():
        raise exits.Trouble(
            f"`{args.verb}` runs where the server's manage.py is, and there is none beside this program",
            exits.SETUP,
            hint=f"Run `python manage.py {args.verb}` in the server's checkout.",
        )
    options = ["--json"] if args.json else []
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(MANAGE), args.verb, *options, *args.rest])  # noqa: S606
