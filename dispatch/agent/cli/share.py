"""`evenflow share`: what each class and tenant gets of a pool, beside what it is entitled to."""

import argparse
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output, age, percent
from dispatch.agent.cli.server import connect

CLASSES = ("CLASS", ">QUEUED", ">RUNNING", ">OLDEST", ">P95 WAIT", ">TARGET", ">ACHIEVED", "")
TENANTS = ("TENANT", ">QUEUED", ">RUNNING", ">OLDEST")


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("share", "show the achieved and the target share of each class")
    command.add_argument("--pool", metavar="SLUG")
    command.add_argument("--window", metavar="DURATION", type=grammar.duration, help="measured over (1m)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Show the shares."""
    stats = connect(args).get("/stats", {"pool": args.pool, "window_s": args.window})
    if out.as_json:
        out.document(stats)
        return exits.OK
    classes, tenants = stats.get("classes") or [], stats.get("tenants") or []
    if not classes:
        out.note("this pool has no classes yet")
    else:
        out.table(CLASSES, [_class(item) for item in classes])
    if tenants:
        out.line()
        out.table(TENANTS, [_queue(item) for item in tenants])
    return exits.OK


def _queue(item: dict[str, Any]) -> list[Any]:
    return [item["slug"], item.get("queued"), item.get("running"), age(item.get("oldest_age_s"))]


def _class(item: dict[str, Any]) -> list[Any]:
    if not item.get("demand"):
        note = "asks for nothing"
    else:
        target, achieved = item.get("share_target"), item.get("share_achieved")
        note = "below its share" if target and achieved is not None and achieved < target * 0.9 else "ok"
    shares = [percent(item.get("share_target")), percent(item.get("share_achieved"))]
    return [*_queue(item), age(item.get("wait_p95_s")), *shares, note]
