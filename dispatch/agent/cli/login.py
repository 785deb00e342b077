"""`evenflow login`: check a server and a key, and keep them for later commands.

The key is asked for on the terminal, or read as the first line of stdin; never an argument, which others could see.
`--ready-file` takes both from the file that `manage.py up --ready-file` writes.
"""

import argparse
import getpass
import json
import sys
from pathlib import Path

from dispatch.agent.cli import config, exits
from dispatch.agent.cli.grammar import Grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.errors import ApiError


def add(grammar: Grammar) -> None:
    """Declare the command."""
    command = grammar.command("login", "store the server's address and your key")
    command.add_argument("--no-check", action="store_true", help="store without asking the server")
    command.add_argument(
        "--ready-file", metavar="FILE", type=Path, dest="ready_file", help="of a server on this machine"
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Ask, check, store."""
    place = _read(args.ready_file) if args.ready_file else config.Place(_url(args.url), _key())
    if not args.no_check:
        _check(connect(args, place))
    where = config.store(place)
    if out.as_json:
        out.document({"url": place.url, "path": str(where)})
    else:
        out.line(f"Stored for {place.url} in {where}.")
    return exits.OK


def _read(path: Path) -> config.Place:
    try:
        ready = json.loads(path.read_text(encoding="utf-8"))
        return config.Place(config.check_url(ready["url"]), config.check_key(ready["admin_key"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise exits.Trouble(f"{path} is no ready-file", exits.SETUP) from error


def _url(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        given = input(f"Server [{config.DEFAULT_URL}]: ").strip()
    return config.check_url(given or config.DEFAULT_URL)


def _key() -> str:
    text = getpass.getpass("Key (ef_…): ") if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise exits.Trouble("no key was given", exits.SETUP, hint="Pipe it in: `evenflow login < keyfile`.")
    return config.check_key(text.strip())


def _check(server: Server) -> None:
    try:
        server.get("/tasks", {"limit": 1})
    except ApiError as error:
        if error.status != 403:  # a key for submitting or working only is a key all the same
            raise
