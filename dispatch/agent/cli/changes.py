"""`evenflow changes`: tasks in the order in which they ended, one line each; --follow goes on for ever.

With --json a line is one task as JSON, with the `cursor` after it: `--cursor` goes on from there, nothing is told twice
and nothing is missed.
"""

import argparse
import json
import time
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output, moment
from dispatch.agent.cli.server import connect

POLL_S = 1.0
PAGE = 1000


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("changes", "print tasks as they end")
    command.add_argument("--follow", action="store_true", help="do not stop at the newest")
    command.add_argument("--tenant", metavar="SLUG")
    command.add_argument("--cursor", help="go on after this one, from an earlier --json line")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Print until there is no more, or for ever."""
    server, cursor = connect(args), args.cursor
    while True:
        answer = server.get("/tasks/changes", {"cursor": cursor, "tenant": args.tenant, "limit": PAGE})
        cursor = answer["next_cursor"]
        for number, item in enumerate(answer["items"], 1):
            if out.as_json:
                last = number == len(answer["items"])
                print(json.dumps({**item, **({"cursor": cursor} if last else {})}), flush=last)
            else:
                out.line(_line(item))
        if not answer["more"]:
            if not args.follow:
                return exits.OK
            time.sleep(POLL_S)


def _line(item: dict[str, Any]) -> str:
    error = item.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    why = ": ".join(str(part) for part in (item.get("reason"), said) if part)
    name = item.get("key") or item.get("type") or ""
    return (
        f"{moment(item['finished_at'])}  {item['id']:>8}  {item['state']:<9}  {item['tenant']}  {name}  {why}".rstrip()
    )
