"""`evenflow tasks ls WORDS…`: list tasks by the console's search words."""

import argparse
import itertools
from typing import Any

from dispatch.agent.cli import exits, search
from dispatch.agent.cli.grammar import Grammar
from dispatch.agent.cli.output import Output, age
from dispatch.agent.cli.server import connect

HEADS = (">ID", "STATE", "CLASS", "TENANT", "USER", "TYPE", ">WAITING", ">STARTS", "WORKER", "WHY")


def add(commands: Grammar) -> None:
    """Declare the command."""
    command = commands.command("tasks", "list tasks: `evenflow tasks ls state:dead tenant:sales`")
    command.add_argument("verb", choices=["ls"])
    command.add_argument("words", nargs="*", metavar="WORD", help=search.HELP)
    command.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many (100; 0 for all)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """List; newest first unless order: says otherwise."""
    if args.limit < 0:
        raise exits.Trouble("--limit is 0 (all) or more", exits.USAGE)
    query = search.filters(args.words)
    found = connect(args).pages("/tasks", query)
    items = list(itertools.islice(found, args.limit + 1 if args.limit else None))
    more = bool(args.limit) and len(items) > args.limit
    if more:
        items.pop()
    if out.as_json:
        out.document({"items": items, "more": more})
        return exits.OK
    if items:
        out.table(HEADS, [_row(item) for item in items])
    else:
        out.note("no such tasks")
    if more:
        out.note(f"… the first {args.limit} only; --limit shows more")
    return exits.OK


def _row(task: dict[str, Any]) -> list[Any]:
    names = [task.get(name) for name in ("id", "state", "class", "tenant", "user", "type")]
    waiting = age(task["queue_age_s"]) if task.get("queue_age_s") is not None else None
    worker = (task.get("lease") or {}).get("worker")
    return [*names, waiting, task.get("starts", task.get("attempts")), worker, _why(task)]


def _why(task: dict[str, Any]) -> str:
    error = task.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return ": ".join(str(part) for part in (task.get("reason"), message) if part)
