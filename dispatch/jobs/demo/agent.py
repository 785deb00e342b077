"""One agent of the demo: a process of its own that works for the control plane over HTTP.

    EVENFLOW_KEY=ef_… python -m dispatch.jobs.demo.agent --url http://127.0.0.1:8000 --name indexer-1 --root docs

`--crash-every N` ends the process without a word in the middle of every N-th task; `--hang-every N` makes every N-th
task hang: heartbeats go on, progress does not, until the lease is lost; `--hang-on TYPE` hangs in all tasks of a type.
The key is read from the environment (EVENFLOW_KEY) so that no process list shows it.
"""

import argparse
import itertools
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dispatch.agent import Client, Job, Runner
from dispatch.jobs.demo.work import Work

CRASH_AFTER_S = 0.5  # into the task that it crashes in

log = logging.getLogger("evenflow.demo.agent")


def main(argv: Sequence[str] | None = None) -> None:
    """Run until SIGTERM or Ctrl-C."""
    options = _options(argv)
    _log_lines(options.name)
    client = Client(
        options.url,
        os.environ["EVENFLOW_KEY"],
        name=options.name,
        capabilities=[word for word in options.capabilities.split(",") if word],
        slots=options.slots,
        pool=options.pool,
        version=options.version,
    )
    runner = Runner(client, grace_s=options.grace_s)
    trouble = Trouble(options.crash_every, options.hang_every, options.hang_on)
    for kind, handler in Work(options.root).handlers.items():
        runner.task(kind)(trouble.around(handler))
    runner.run()


def _log_lines(name: str) -> None:
    """One line an event: the server keeps the stack of a failed task, the terminal need not."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {name}: %(message)s", "%H:%M:%S"))
    handler.addFilter(_without_stack)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _without_stack(record: logging.LogRecord) -> bool:
    if record.exc_info:
        record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
        record.exc_info = record.exc_text = None
    return True


class Trouble:
    """Makes some tasks of this agent go wrong the way real agents do. 0 and "" mean never."""

    def __init__(self, crash_every: int = 0, hang_every: int = 0, hang_on: str = "") -> None:
        self._crash_every = crash_every
        self._hang_every = hang_every
        self._hang_on = hang_on
        self._count = itertools.count(1)

    def around(self, handler: Callable[[Job], Any]) -> Callable[[Job], Any]:
        """The handler, with this trouble before it."""

        def run(job: Job) -> Any:
            number = next(self._count)
            if self._crash_every and number % self._crash_every == 0:
                self._crash(job)
            if job.type == self._hang_on or (self._hang_every and number % self._hang_every == 0):
                self._hang(job)
            return handler(job)

        return run

    def _crash(self, job: Job) -> None:
        job.stop.wait(CRASH_AFTER_S)
        log.warning("crashing in task %s", job.task_id)
        os.kill(os.getpid(), signal.SIGKILL)

    def _hang(self, job: Job) -> None:
        log.warning("hanging in task %s", job.task_id)
        job.progress(note="waiting for an answer that never comes")
        job.stop.wait()
        job.check()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dispatch.jobs.demo.agent", description="One agent of the demo.")
    parser.add_argument("--url", required=True, help="address of the control plane")
    parser.add_argument("--name", required=True, help="the worker's name (a slug)")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the folder whose files it may read")
    parser.add_argument("--capabilities", default="", help="comma-separated")
    parser.add_argument("--slots", type=int, default=1, help="tasks at a time")
    parser.add_argument("--pool", default=None)
    parser.add_argument("--version", default="demo-1")
    parser.add_argument("--grace-s", type=float, default=2.0, help="seconds for running tasks after SIGTERM")
    parser.add_argument("--crash-every", type=int, default=0, metavar="N")
    parser.add_argument("--hang-every", type=int, default=0, metavar="N")
    parser.add_argument("--hang-on", default="", metavar="TYPE")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
