"""`evenflow alerts` and `evenflow ack ID`: what needs a look, and saying that one has been seen."""

import argparse
import itertools

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output, moment
from dispatch.agent.cli.server import connect

HEADS = (">ID", "SEVERITY", "STATE", "RULE", "SINCE", "SAYS")


def add(commands: grammar.Grammar) -> None:
    """Declare both commands."""
    command = commands.command("alerts", "list what needs a look, newest first")
    command.add_argument("--all", action="store_true", help="resolved ones too")
    command.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many (100)")
    command.set_defaults(run=run)
    command = commands.command("ack", "say that an alert has been seen; it keeps quiet until it gets worse")
    command.add_argument("id", type=int)
    command.add_argument("--note", required=True, help="what is being done about it")
    command.add_argument("--until", metavar="TIME", type=grammar.time, help="and then it speaks up again")
    command.set_defaults(run=run_ack)


def run(args: argparse.Namespace, out: Output) -> int:
    """List; exit code 1 when something is open, so that a script can ask."""
    found = connect(args).pages("/alerts", {"state": None if args.all else "open"})
    items = list(itertools.islice(found, max(0, args.limit)))
    if out.as_json:
        out.document({"items": items})
    elif items:
        names = ("id", "severity", "state", "rule")
        rows = [[item[name] for name in names] + [moment(item["fired_at"]), item["text"]] for item in items]
        out.table(HEADS, rows)
    else:
        out.note("nothing needs a look")
    return exits.NO if any(item["state"] == "firing" for item in items) else exits.OK


def run_ack(args: argparse.Namespace, out: Output) -> int:
    """Acknowledge one."""
    body = {"note": args.note} | ({"until": args.until} if args.until else {})
    answer = connect(args).post(f"/alerts/{args.id}/ack", body)
    if out.as_json:
        out.document(answer)
    else:
        out.line(
            f"alert {args.id} is {answer['state']}{f' until {args.until}' if args.until else ''}: {answer['text']}"
        )
    return exits.OK
