"""`evenflow work --exec 'CMD {task.json}'`: make an agent of any command.

Claims tasks as a worker and runs the command once per task (no shell), with the lease kept alive while it runs. A lost
lease, a cancel, a yield or SIGTERM ends the child's whole process group: TERM, the grace, KILL; after SIGTERM the tasks
go back uncounted, a second signal does not wait. The command talks back by lines on stdout (lines.py), its exit code
decides the end (verdict.py). docs/guides/wrap-a-command.md shows it all.
Limits: POSIX only (process groups).
With --json one event a line on stdout: started, output, warning, stopping, completed, failed, released, lost.
"""

import argparse
import json
import logging
import os
import re
import shlex
import shutil
import signal
import socket
import threading
from contextlib import suppress
from typing import Any

from dispatch.agent import Client, Job, LeaseLost, Runner, Unreachable
from dispatch.agent.cli import config, exits, grammar, verdict
from dispatch.agent.cli.guard import Guard
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.wrap import Options, Wrapped

RETRY_FOR_S = 60.0
GOODBYE_S = 5.0  # for the last calls, beyond the child's grace


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("work", "work on tasks with a command: `evenflow work --exec 'CMD {task.json}'`")
    command.add_argument(
        "--exec", metavar="CMD", required=True, dest="exec", help="run for each task; {task.json} is the task's file"
    )
    command.add_argument("--name", metavar="SLUG", help="of this worker (the host's name)")
    command.add_argument("--cap", metavar="SLUG", action="append", default=[], dest="capabilities", help="it offers")
    command.add_argument("--slots", metavar="N", type=int, default=1, help="commands at a time (1)")
    command.add_argument("--pool", metavar="SLUG")
    command.add_argument("--weight", type=float)
    command.add_argument("--label", metavar="NAME=VALUE", action="append", default=[], dest="labels")
    command.add_argument("--grace", metavar="DURATION", type=grammar.duration, default=10.0, help="TERM to KILL (10s)")
    command.add_argument(
        "--exit-code",
        metavar="CODE=KIND",
        type=verdict.entry,
        action="append",
        default=[],
        dest="codes",
        help="what an exit code means: complete, release, transient, permanent, tool_limited",
    )
    command.add_argument("--stdin", action="store_true", help="the task is on the command's stdin too")
    command.add_argument("--stdout-result", action="store_true", help="without a result, its stdout is the result")
    command.add_argument("--pass-key", action="store_true", help="leave EVENFLOW_KEY in its environment")
    command.add_argument("--quiet", action="store_true", help="do not repeat the command's output")
    command.add_argument("--once", action="store_true", help="end after one task; exit code 0 if it was completed")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Work until a signal."""
    options = Options(
        command=_command(args.exec),
        grace_s=args.grace,
        table={**verdict.TABLE, **dict(args.codes)},
        stdin=args.stdin,
        stdout_result=args.stdout_result,
        pass_key=args.pass_key,
    )
    _log_to(out)
    place = config.load(args.url)
    worker = Worker(_client(args, place), options, Telling(out, quiet=args.quiet), once=args.once)
    _hear_hangup()
    try:
        return worker.run()
    except Unreachable as error:
        raise exits.unreachable(place.url, error) from error


class Worker:
    """The runner's one handler, whatever the type."""

    def __init__(self, client: Client, options: Options, tell: "Telling", *, once: bool) -> None:
        self._client = client
        self._options = options
        self._tell = tell
        self._once = once
        self._guard = Guard(options.grace_s)
        self._runner = Runner(client, grace_s=options.grace_s + GOODBYE_S)
        self._runner.task("*")(self._handle)
        self._failure: OSError | None = None
        self._completed = False

    def run(self) -> int:
        """Until a signal, the one task, or a command that cannot be started."""
        self._tell.connecting(self._client.name)
        try:
            session = self._client.session()  # a refused key or registration ends the command before anything else
            self._tell.hello(self._client, session)
            self._runner.run()
        finally:
            self._guard.close()
        if self._failure is not None:
            raise self._failure
        return exits.NO if self._once and not self._completed else exits.OK

    def _handle(self, job: Job) -> None:
        try:
            self._completed = Wrapped(job, self._options, self._guard, self._tell).run()
        except LeaseLost:
            self._tell("lost", job, {})
            raise
        except OSError as error:
            self._failure = error
            job.release(f"the command cannot be started: {error}", retry_for_s=GOODBYE_S)
            self._runner.stop()
        finally:
            if self._once:
                self._runner.stop()


class Telling:
    """Says what happens: lines on stderr for people, JSON lines on stdout for programs. Thread-safe."""

    def __init__(self, out: Output, *, quiet: bool) -> None:
        self._out = out
        self._quiet = quiet
        self._lock = threading.Lock()

    def connecting(self, name: str) -> None:
        """The session is about to be opened, which may take a while."""
        if not self._out.as_json:
            self._out.note(f"{name}: connecting")

    def hello(self, client: Client, session: int) -> None:
        """The session is open."""
        if not self._out.as_json:
            self._out.note(f"{client.name}: waiting for tasks ({client.slots} at a time, session {session})")

    def __call__(self, event: str, job: Job, more: dict[str, Any]) -> None:
        if event == "output" and self._quiet:
            return
        with self._lock, suppress(OSError, ValueError):  # nobody listens any more; the work goes on
            if self._out.as_json:
                print(json.dumps({"event": event, "task_id": job.task_id, "attempt": job.attempt, **more}), flush=True)
            elif event == "output":
                self._out.note(f"task {job.task_id} | {more['line']}")
            else:
                said = ", ".join(str(value) for name, value in more.items() if name not in {"pid", "exit_code"})
                self._out.note(f"task {job.task_id}: {event}{f': {said}' if said else ''}")


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise exits.Trouble(f"--exec cannot be read: {error}", exits.USAGE) from error
    if not words:
        raise exits.Trouble("--exec is empty", exits.USAGE)
    if shutil.which(words[0]) is None:
        raise exits.Trouble(f"there is no program {words[0]!r} to run", exits.NOT_FOUND, hint="Is it on the PATH?")
    return words


def _client(args: argparse.Namespace, place: config.Place) -> Client:
    labels = dict(label.partition("=")[::2] for label in args.labels)
    return Client(
        place.url,
        place.key,
        name=args.name or _host(),
        capabilities=args.capabilities,
        slots=1 if args.once else args.slots,
        pool=args.pool,
        weight=args.weight,
        labels=labels or None,
        retry_for_s=RETRY_FOR_S if args.retry_for is None else args.retry_for,
        sigterm=False,
    )


def _host() -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().lower()).lstrip("._-")
    return name[:63] or "worker"


def _hear_hangup() -> None:
    """A closed terminal is a SIGTERM, unless it is to be ignored (nohup)."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))


def _log_to(out: Output) -> None:
    """The SDK's own words go where the command's go."""
    handler = logging.Handler()
    handler.emit = lambda record: out.note(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("evenflow.agent")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
