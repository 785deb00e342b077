"""The command line `evenflow`: every verb of a submitter, an agent and an operator, over HTTP.

One module per command; each has `add(commands)`, which declares its words, and a function that runs it and returns an
exit code. Every command takes `--json` (one JSON document on stdout, errors as one JSON object on stderr) and `--url`.
Exit codes are those of exits.py; docs/reference/cli.md lists them with every command.
Standard library only; imports nothing else of ours but the SDK around it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

from dispatch.agent.cli import (
    alerts,
    beside,
    bulk,
    changes,
    doctor,
    exits,
    fleet,
    get,
    keys,
    login,
    mcp,
    pause,
    policy,
    share,
    submit,
    tasks,
    why,
    work,
)
from dispatch.agent.cli.grammar import Grammar
from dispatch.agent.cli.output import Output
from dispatch.agent.version import VERSION

COMMANDS = (
    *(login, submit, get, tasks, why, bulk, share, fleet, pause, policy),
    *(alerts, changes, keys, work, mcp, doctor, beside),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code and raises SystemExit only for wrong usage and `--help`."""
    top = parser()
    args, rest = top.parse_known_args(argv)
    if rest and args.run is not beside.run:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    out = Output(as_json=args.json)
    try:
        with ExitStack() as args.stack:
            code: int = args.run(args, out)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:  # `evenflow … | head`: nobody reads on, and that is fine
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except exits.FAMILY as error:
        problem = exits.explain(error)
        out.problem(problem)
        return problem.code
    return code


def run() -> NoReturn:
    """What the entry points call."""
    sys.exit(main())


def parser() -> argparse.ArgumentParser:
    """The whole grammar; `args.run(args, out)` is the chosen command."""
    top = argparse.ArgumentParser(
        prog="evenflow",
        parents=[_common(None)],
        description="Submit, work on, watch and steer the tasks of an Evenflow server.",
        epilog="Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 65 refused, 66 not found, 69 unreachable, "
        "75 try later, 77 not permitted, 78 not set up. `evenflow COMMAND --help` shows one command.",
    )
    top.add_argument("--version", action="version", version=f"evenflow {VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    grammar = Grammar(commands, _common(argparse.SUPPRESS))
    for module in COMMANDS:
        module.add(grammar)
    return top


def _common(default: Any) -> argparse.ArgumentParser:
    """The options of every command, which may stand before the command too: then `default` must not undo them."""
    common = argparse.ArgumentParser(add_help=False, argument_default=default)
    common.add_argument("--json", action="store_true", default=default or False, help="print JSON instead of text")
    common.add_argument("--url", metavar="URL", help="the server (else EVENFLOW_URL, else the one of `evenflow login`)")
    common.add_argument(
        "--retry-for",
        metavar="SECONDS",
        type=float,
        dest="retry_for",
        help="go on trying so long while the server cannot be reached or says 429 or 5xx (3; for `work` 60)",
    )
    return common
