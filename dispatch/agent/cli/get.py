"""`evenflow get ID [--wait]`: one task with its history; with --wait until it has ended.

With --wait the exit code tells: 0 succeeded, 1 dead or cancelled, 75 when the time is over first.
"""

import argparse
import json
import time
from typing import Any

from dispatch.agent.cli import exits, grammar
from dispatch.agent.cli.bar import Bar
from dispatch.agent.cli.output import Output, age, cell, moment
from dispatch.agent.cli.server import Server, connect

FINAL = {"succeeded", "dead", "cancelled"}
STEP_S = 20.0  # one long poll


def add(commands: grammar.Grammar) -> None:
    """Declare the command."""
    command = commands.command("get", "show one task, or wait for its end")
    command.add_argument("id", type=grammar.task_id)
    command.add_argument(
        "--wait", metavar="DURATION", type=grammar.duration, nargs="?", const=float("inf"), help="until it has ended"
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Show the task."""
    server = connect(args)
    task = server.get(f"/tasks/{args.id}") if args.wait is None else wait(server, args.id, args.wait)
    if out.as_json:
        out.document(task)
    else:
        _show(task, out)
    if args.wait is None or task["state"] == "succeeded":
        return exits.OK
    return exits.NO if task["state"] in FINAL else exits.LATER


def wait(server: Server, task_id: int, seconds: float) -> dict[str, Any]:
    """The task once its state is final, or as it is after so many seconds."""
    end = time.monotonic() + seconds
    with Bar(f"waiting for task {task_id}") as bar:
        while True:
            step = max(0.0, min(STEP_S, end - time.monotonic()))
            task: dict[str, Any] = server.get(f"/tasks/{task_id}", {"wait_s": round(step, 3)}, wait_s=step)
            if task["state"] in FINAL or time.monotonic() >= end:
                return task
            bar.show(0, progress(task) or task["state"], now=True)


def progress(task: dict[str, Any]) -> str:
    """What its agent last said: `step 3, 50 %, note`."""
    said = (task.get("lease") or {}).get("progress") or {}
    step, done, note = said.get("step"), said.get("fraction"), said.get("note")
    parts = [f"step {step}" if step is not None else "", f"{done:.0%}" if done is not None else "", note or ""]
    return ", ".join(part for part in parts if part)


def _show(task: dict[str, Any], out: Output) -> None:
    out.line(f"task {task['id']}  {task['state']}{'  (cancel requested)' if task.get('cancel_requested') else ''}")
    for name in ("tenant", "class", "user", "pool", "type", "capabilities", "tools", "priority", "key"):
        if task.get(name) not in (None, "", [], 0):
            out.line(f"  {name:<12} {cell(task[name])}")
    starts, counted = task.get("starts", task.get("attempts", 0)), task.get("attempts", 0)
    if starts:
        out.line(f"  {'starts':<12} {starts}, {counted} of them failed or lost")
    if task.get("queue_age_s") is not None:
        out.line(f"  {'waiting':<12} {age(task['queue_age_s'])}")
    if lease := task.get("lease"):
        out.line(f"  {'worker':<12} {lease.get('worker')}, until {moment(lease.get('expires_at'))}")
        if said := progress(task):
            out.line(f"  {'progress':<12} {said}")
    for name in ("payload", "result", "error"):
        if task.get(name) is not None:
            out.line(f"  {name:<12} {json.dumps(task[name], ensure_ascii=False)}")
    if task.get("reason"):
        out.line(f"  {'reason':<12} {task['reason']}")
    for event in task.get("history") or ():
        out.line(f"  {moment(event.get('at'))}  {event.get('event'):<12} {_rest(event)}".rstrip())


def _rest(event: dict[str, Any]) -> str:
    error = event.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    attempt = f"attempt {event['attempt']}" if event.get("attempt") else ""
    reason = event.get("reason") if event.get("reason") != event.get("event") else None
    parts = (attempt, event.get("worker"), event.get("actor"), reason, said)
    return ", ".join(str(part) for part in parts if part)
