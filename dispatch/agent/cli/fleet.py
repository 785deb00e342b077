"""`evenflow workers` and `evenflow drain NAME`: the fleet, and taking one worker out of it gently."""

import argparse
import time
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.bar import Bar
from dispatch.agent.cli.output import Output, moment
from dispatch.agent.cli.server import Server, connect

HEADS = (">ID", "NAME", "STATE", "POOL", ">RUNNING", ">SLOTS", "LAST SEEN", "CAPABILITIES")
POLL_S = 1.0


def add(commands: grammar.Grammar) -> None:
    """Declare both commands."""
    workers = commands.command("workers", "list the workers")
    workers.add_argument("--pool", metavar="SLUG")
    workers.set_defaults(run=run)
    drain = commands.command("drain", "let a worker finish what it has and give it no more")
    drain.add_argument("name")
    drain.add_argument("--pool", metavar="SLUG", help="when several pools have a worker of that name")
    drain.add_argument("--undo", action="store_true", help="give it work again")
    drain.add_argument("--wait", action="store_true", help="until it has nothing in hand")
    drain.set_defaults(run=run_drain)


def run(args: argparse.Namespace, out: Output) -> int:
    """List the fleet."""
    items = list(connect(args).pages("/workers", {"pool": args.pool}))
    if out.as_json:
        out.document({"items": items})
    elif items:
        out.table(HEADS, [_row(item) for item in items])
    else:
        out.note("no workers have registered yet")
    return exits.OK


def run_drain(args: argparse.Namespace, out: Output) -> int:
    """Drain, or undo it."""
    server = connect(args)
    worker = find(server, args.name, args.pool)
    answer = server.patch(f"/workers/{worker['id']}", {"draining": not args.undo})
    if args.wait and not args.undo:
        _until_idle(server, args.name, args.pool)
    if out.as_json:
        out.document(answer)
    elif args.undo:
        out.line(f"{args.name} takes work again.")
    else:
        out.line(f"{args.name} is draining{' and has nothing in hand' if args.wait else ''}.")
    return exits.OK


def find(server: Server, name: str, pool: str | None) -> dict[str, Any]:
    """The worker of that name. Raises Trouble for none and for several."""
    found = [item for item in server.pages("/workers", {"pool": pool}) if item["name"] == name]
    if not found:
        raise exits.Trouble(f"there is no worker {name!r}", exits.NOT_FOUND, hint="`evenflow workers` lists them.")
    if len(found) > 1:
        pools = ", ".join(sorted(str(item.get("pool")) for item in found))
        raise exits.Trouble(f"several pools have a worker {name!r} ({pools})", exits.USAGE, hint="Give --pool.")
    return found[0]


def _until_idle(server: Server, name: str, pool: str | None) -> None:
    left = first = int(find(server, name, pool).get("running") or 0)
    with Bar(f"draining {name}", first) as bar:
        while left:
            bar.show(max(0, first - left), now=True)
            time.sleep(POLL_S)
            left = int(find(server, name, pool).get("running") or 0)


def _row(item: dict[str, Any]) -> list[Any]:
    names = [item.get(name) for name in ("id", "name", "state", "pool", "running", "slots")]
    seen = item.get("last_seen_at")
    return [*names, moment(seen) if seen else None, item.get("capabilities")]
