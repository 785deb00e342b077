"""`evenflow why ID`: why a task does not run, every blocker with its value and limit."""

import argparse
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.output import Output, age
from dispatch.agent.cli.server import connect


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("why", "say why a task does not run")
    command.add_argument("id", type=grammar.task_id)
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Explain."""
    answer = connect(args).get(f"/tasks/{args.id}/why")
    if out.as_json:
        out.document(answer)
        return exits.OK
    blockers = answer.get("blockers") or []
    out.line(f"task {answer['task_id']}  {answer['state']}  {_verdict(answer, blockers)}")
    for blocker in blockers:
        out.line(f"  {blocker['code']:<18} {_blocker(blocker)}")
    position = answer.get("position")
    if isinstance(position, dict) and position.get("lane") is not None:
        out.line(f"  {'in its lane':<18} place {position['lane']}, {position.get('ahead_of') or 0} behind it")
    if answer.get("estimate_s") is not None:
        out.line(f"  {'starts in about':<18} {age(answer['estimate_s'])}")
    for holder in answer.get("holders") or ():
        name = next((f"{kind} {holder[kind]}" for kind in ("tenant", "class") if holder.get(kind)), "others")
        out.line(f"  {'slots are with':<18} {name}: {holder.get('running')} running")
    return exits.OK


def _verdict(answer: dict[str, Any], blockers: list[Any]) -> str:
    if answer.get("startable") and not blockers:
        return "nothing stops it"
    return f"{len(blockers)} reason{'s' if len(blockers) != 1 else ''}" if blockers else "does not wait"


def _blocker(blocker: dict[str, Any]) -> str:
    subject = f"{blocker['subject']}: " if blocker.get("subject") else ""
    if blocker.get("text"):
        return str(blocker["text"])
    return f"{subject}{blocker.get('value')} of {blocker.get('limit')}"
