"""`evenflow pause SCOPE [SLUG]` and `evenflow resume …`: stop and start dispatch; what runs goes on."""

import argparse

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import connect

SCOPES = ("all", "pool", "class", "tenant", "tool", "worker")


def add(commands: grammar.Grammar) -> None:
    """Declare both commands."""
    for verb, help in (("pause", "start nothing new in a scope"), ("resume", "undo a pause")):
        command = commands.command(verb, help)
        command.add_argument("scope", choices=SCOPES)
        command.add_argument("slug", nargs="?", help="its name; none for `all`")
        command.add_argument("--reason", required=True, help="for the audit")
        if verb == "pause":
            command.add_argument("--until", metavar="TIME", type=grammar.time, help="resume by itself then")
        command.set_defaults(run=run, verb=verb, until=None)


def run(args: argparse.Namespace, out: Output) -> int:
    """Pause or resume."""
    if (args.scope == "all") == bool(args.slug):
        raise exits.Trouble(f"`{args.verb} all` has no name, every other scope needs one", exits.USAGE)
    given = {"scope": args.scope, "slug": args.slug, "reason": args.reason, "until": args.until}
    answer = connect(args).post(f"/{args.verb}", {name: value for name, value in given.items() if value is not None})
    if out.as_json:
        out.document(answer)
        return exits.OK
    out.warnings(answer or {})
    what = " ".join(word for word in (args.scope, args.slug) if word)
    out.line(f"{what}: {args.verb}d{f' until {args.until}' if args.until else ''}.")
    return exits.OK
