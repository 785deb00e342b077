"""`evenflow keys ls|create|rotate|revoke`: API keys. A whole key is shown once, on stdout alone, so it can be piped."""

import argparse
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output, moment
from dispatch.agent.cli.server import connect

SCOPES = ("submit", "work", "read", "operate", "admin")
HEADS = (">ID", "PREFIX", "NAME", "SCOPES", "TENANT", "POOL", "EXPIRES")


def add(commands: grammar.Grammar) -> None:
    """Declare the command and its verbs."""
    command = commands.command("keys", "list, make, rotate and revoke API keys")
    verbs = grammar.Grammar(command.add_subparsers(metavar="VERB", required=True), commands.common)
    verbs.command("ls", "list the keys, without their secrets").set_defaults(run=run_list)
    create = verbs.command("create", "make a key and show it, this once")
    create.add_argument("name")
    create.add_argument("--scope", action="append", required=True, choices=SCOPES, dest="scopes")
    create.add_argument("--tenant", metavar="SLUG", help="may see and touch this tenant only")
    create.add_argument("--pool", metavar="SLUG")
    create.add_argument("--expires-at", metavar="TIME", type=grammar.time, dest="expires_at")
    create.set_defaults(run=run_create)
    rotate = verbs.command("rotate", "make its successor; the old key lives on for the overlap")
    rotate.add_argument("id", type=int)
    rotate.add_argument("--overlap", metavar="DURATION", type=grammar.duration, default=3600.0, help="(1h)")
    rotate.set_defaults(run=run_rotate)
    revoke = verbs.command("revoke", "end a key")
    revoke.add_argument("id", type=int)
    revoke.set_defaults(run=run_revoke)


def run_list(args: argparse.Namespace, out: Output) -> int:
    """List."""
    items = list(connect(args).pages("/keys"))
    if out.as_json:
        out.document({"items": items})
        return exits.OK
    out.table(HEADS, [_row(item) for item in items])
    return exits.OK


def run_create(args: argparse.Namespace, out: Output) -> int:
    """Make one."""
    given = {name: getattr(args, name) for name in ("name", "scopes", "tenant", "pool", "expires_at")}
    return _show(connect(args).post("/keys", {name: value for name, value in given.items() if value is not None}), out)


def run_rotate(args: argparse.Namespace, out: Output) -> int:
    """Make a successor."""
    return _show(connect(args).post(f"/keys/{args.id}/rotate", {"overlap_s": args.overlap}), out)


def run_revoke(args: argparse.Namespace, out: Output) -> int:
    """End one."""
    connect(args).delete(f"/keys/{args.id}")
    if out.as_json:
        out.document({"id": args.id, "revoked": True})
    else:
        out.line(f"key {args.id} is revoked; it ends within seconds.")
    return exits.OK


def _row(item: dict[str, Any]) -> list[Any]:
    names = [item.get(name) for name in ("id", "prefix", "name", "scopes", "tenant", "pool")]
    return [*names, moment(item["expires_at"]) if item.get("expires_at") else None]


def _show(answer: dict[str, Any], out: Output) -> int:
    if out.as_json:
        out.document(answer)
        return exits.OK
    out.note(f"key {answer['id']}; it is not shown again:")
    out.line(str(answer["key"]))
    return exits.OK
