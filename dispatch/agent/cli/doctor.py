"""`evenflow doctor`: is everything right on this side? Address, server, key, scopes, clock, one line each.

It changes nothing. Exit code 0 when all is well, else that of the first thing that is not. A server's own set-up is
looked at by `manage.py doctor`, where its `manage.py` is.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dispatch.agent.cli import config, exits
from dispatch.agent.cli.grammar import Grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.version import VERSION

SKEW_S = 30.0  # nothing depends on an agent's clock, but logs that disagree by more mislead people
USES = {"submit": "submit", "work": "work", "read": "look", "operate": "operate", "admin": "manage keys"}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `code` 0 is good."""

    name: str
    code: int
    text: str
    hint: str = ""


def add(commands: Grammar) -> None:
    """Declare the command."""
    commands.command("doctor", "check address, key and clock from here").set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Check one thing after the other, until one makes the rest pointless."""
    found = []
    for check in _checks(args):
        found.append(check)
        if not out.as_json:
            out.line(f"{'ok' if check.code == exits.OK else 'NO':<3} {check.name:<8} {check.text}")
            if check.hint:
                out.line(f"{'':<12} {check.hint}")
    if out.as_json:
        out.document(
            {
                "ok": all(check.code == exits.OK for check in found),
                "checks": [
                    {"name": one.name, "ok": one.code == exits.OK, "text": one.text, "hint": one.hint} for one in found
                ],
            }
        )
    return next((check.code for check in found if check.code != exits.OK), exits.OK)


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    try:
        place = config.load(args.url)
    except exits.Trouble as trouble:
        yield Check("set-up", trouble.code, str(trouble), trouble.hint)
        return
    yield Check("set-up", exits.OK, f"{place.url}, key {place.key[:11]}…, evenflow {VERSION}")
    server = connect(args, place)
    try:
        health = server.transport.call("GET", "/readyz")
        yield Check("server", exits.OK, f"ready: {health}" if isinstance(health, str) else "ready")
    except exits.FAMILY as error:
        problem = exits.explain(error)
        hint = problem.hint if problem.code != exits.LATER else "Calls may still be answered; the part comes back."
        yield Check("server", problem.code, problem.sentence, hint)
        if problem.code != exits.LATER:
            return
    except ValueError:
        yield Check("server", exits.SOFTWARE, "what answers there is no Evenflow server", "Check the address.")
        return
    yield from _key(server)


def _key(server: Server) -> Iterator[Check]:
    before = time.time()
    try:
        me = server.get("/me")
    except exits.FAMILY as error:
        problem = exits.explain(error)
        yield Check("key", problem.code, problem.sentence, problem.hint)
        return
    after = time.time()
    bound = "".join(f", {kind} {me[kind]} only" for kind in ("tenant", "pool") if me.get(kind))
    yield Check("key", exits.OK, f"{me['name']}{bound}")
    missing = [use for scope, use in USES.items() if scope not in me["scopes"]]
    cannot = f"; not: {', '.join(missing)}" if missing else ""
    yield Check("scopes", exits.OK, f"{', '.join(me['scopes'])}{cannot}")
    yield _clock(me, before, after)


def _clock(me: dict[str, Any], before: float, after: float) -> Check:
    """The server's clock was read somewhere between the two times of ours."""
    theirs = datetime.fromisoformat(me["at"]).timestamp()
    off = before - theirs if theirs < before else max(0.0, theirs - after)
    took = f"; a call takes {(after - before) * 1000:.0f} ms"
    if off > SKEW_S:
        hint = "Leases do not depend on it, but times in logs will not match. Set the clock."
        return Check("clock", exits.NO, f"{off:.0f} s apart from the server's{took}", hint)
    return Check("clock", exits.OK, f"within {SKEW_S:.0f} s of the server's{took}")
