"""`evenflow submit`: one task from flags, or many from JSON lines.

The payload is JSON, `@FILE` or `-` for stdin. With `--lines FILE|-` each line is a task object of the API; flags fill
in what a line leaves out. Lines go in calls of at most 1000 tasks or 8 MiB, each all or nothing; a refusal names the
line and says how many were submitted before it. Give lines a `key` and the same file can be submitted again safely.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.bar import Bar
from dispatch.agent.cli.output import Output
from dispatch.agent.cli.server import Server, connect
from dispatch.agent.errors import ApiError
from dispatch.agent.submitting import MAX_BATCH

MAX_BYTES = 8 * 1024 * 1024  # of one call, half of what the server takes
FIELDS = (
    *("tenant", "class", "user", "pool", "type", "capabilities", "tools", "cost", "priority", "key"),
    *("run_at", "max_attempts", "max_runtime_s", "progress_timeout_s", "deadline"),
)
Line = tuple[int, dict[str, Any], int]  # number from 1, task, bytes


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("submit", "submit one task, or many from JSON lines")
    command.add_argument("payload", nargs="?", help="JSON, @FILE, or - for stdin (null when left out)")
    command.add_argument("--lines", metavar="FILE", help="submit each line of FILE (- for stdin), a task as JSON")
    command.add_argument("--tenant", metavar="SLUG")
    command.add_argument("--class", metavar="SLUG", dest="class")
    command.add_argument("--user", metavar="SLUG")
    command.add_argument("--pool", metavar="SLUG")
    command.add_argument("--type", metavar="SLUG")
    command.add_argument("--cap", metavar="SLUG", action="append", dest="capabilities", help="a required capability")
    command.add_argument("--tool", metavar="SLUG", action="append", dest="tools", help="a tool it uses")
    command.add_argument("--cost", type=float, help="estimate, in the pool's unit")
    command.add_argument("--priority", type=int, help="-100..100, inside its lane")
    command.add_argument("--key", help="makes a repeated submit the same task")
    command.add_argument("--run-at", metavar="TIME", type=grammar.time, dest="run_at", help="not before")
    command.add_argument("--deadline", metavar="TIME", type=grammar.time, help="given up after")
    command.add_argument("--max-attempts", metavar="N", type=int, dest="max_attempts")
    command.add_argument("--max-runtime", metavar="DURATION", type=grammar.duration, dest="max_runtime_s")
    command.add_argument("--progress-timeout", metavar="DURATION", type=grammar.duration, dest="progress_timeout_s")
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Submit; prints the ids, one a line."""
    common = {name: getattr(args, name) for name in FIELDS if getattr(args, name) is not None}
    if args.lines is None:
        return _one(connect(args), {**common, "payload": _payload(args.payload)}, out)
    if args.payload is not None:
        raise exits.Trouble("give a payload or --lines, not both", exits.USAGE)
    if "key" in common:
        raise exits.Trouble("--key is for one task; give each line its own", exits.USAGE)
    server = connect(args)
    with nullcontext(sys.stdin) if args.lines == "-" else Path(args.lines).open(encoding="utf-8") as file:
        return _many(server, file, common, out)


def _one(server: Server, task: dict[str, Any], out: Output) -> int:
    for name in ("tenant", "class"):
        if name not in task:
            raise exits.Trouble(f"a task needs --{name}", exits.USAGE)
    answer = server.post("/tasks", task)
    if out.as_json:
        out.document(answer)
        return exits.OK
    out.warnings(answer)
    if not answer["created"]:
        out.note(f"known already by its key: task {answer['id']}, {answer['state']}")
    out.line(str(answer["id"]))
    return exits.OK


def _payload(given: str | None) -> Any:
    if given is None:
        return None
    if given == "-":
        text, where = sys.stdin.read(), "stdin"
    elif given.startswith("@"):
        text, where = Path(given[1:]).read_text(encoding="utf-8"), given[1:]
    else:
        text, where = given, "payload"
    try:
        return grammar.strict_json(text)
    except ValueError as error:
        raise exits.Trouble(f"{where} is not JSON: {error}", exits.REFUSED) from error


def _many(server: Server, file: TextIO, common: dict[str, Any], out: Output) -> int:
    answers: list[dict[str, Any]] = []
    total = _count(file)
    done = created = 0
    with Bar("submitting", total) as bar:
        try:
            for batch in _batches(_lines(file, common)):
                answer = _send(server, batch)
                out.warnings(answer)
                done += len(batch)
                created += sum(item["created"] for item in answer["tasks"])
                if out.as_json:
                    answers += answer["tasks"]
                else:
                    for item in answer["tasks"]:
                        out.line(str(item["id"]))
                bar.show(done)
        except exits.Trouble as error:
            raise exits.Trouble(f"{error}; {done} tasks were submitted before", error.code, hint=error.hint) from error
    if out.as_json:
        out.document({"tasks": answers})
    else:
        out.note(f"{done} tasks, {created} of them new")
    return exits.OK


def _send(server: Server, batch: list[Line]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = server.post("/tasks", {"tasks": [task for _, task, _ in batch]})
    except ApiError as error:
        raise _at_lines(error, batch) from error
    return answer


def _count(file: TextIO) -> int | None:
    """How many lines there are, for the bar; None for a pipe."""
    if not file.seekable():
        return None
    total = sum(1 for line in file if line.strip())
    file.seek(0)
    return total


def _lines(file: TextIO, common: dict[str, Any]) -> Iterator[Line]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            task = grammar.strict_json(text)
        except ValueError as error:
            raise exits.Trouble(f"line {number}: {error}", exits.REFUSED) from error
        if not isinstance(task, dict):
            raise exits.Trouble(f"line {number}: a task is a JSON object", exits.REFUSED)
        yield number, {"payload": None, **common, **task}, len(text)


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == MAX_BATCH or size + line[2] > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line[2]
    if batch:
        yield batch


def _at_lines(error: ApiError, batch: list[Line]) -> exits.Trouble:
    """The refusal of a batch in terms of its lines: `tasks[3].payload` is line n, field payload."""
    problem = exits.explain(error)
    parts = []
    for item in error.errors:
        place, _, name = str(item.get("field", "")).partition(".")
        index = place.removeprefix("tasks[").removesuffix("]")
        known = index.isdigit() and place.startswith("tasks[") and int(index) < len(batch)
        where = f"line {batch[int(index)][0]}: {name or 'task'}" if known else place or "body"
        parts.append(f"{where}: {item.get('message')}")
    said = "; ".join(parts) or f"lines {batch[0][0]} to {batch[-1][0]}: {problem.sentence}"
    return exits.Trouble(said, problem.code, hint=problem.hint)
