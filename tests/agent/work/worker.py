"""A running `evenflow work`, and what its children leave behind."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.agent.console import Console
from tests.agent.server import KEY

FAMILY = "sh -c 'sleep 300 & echo $! > {folder}/grandchild; echo $$ > {folder}/child; wait'"
STUBBORN = "sh -c 'trap : TERM; echo $$ > {folder}/child; while :; do sleep 0.05; done'"


class Worker:
    """A running `evenflow work`."""

    def __init__(self, console: Console, home: Path, command: str, *more: str) -> None:
        self.console = console
        env = {**os.environ, "EVENFLOW_URL": console.url, "EVENFLOW_KEY": KEY, "XDG_CONFIG_HOME": str(home)}
        words = ["work", "--exec", command, "--name", "w1", "--grace", "0.5", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dispatch.agent.cli", *words],
            env={**env, "TMPDIR": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> tuple[str, dict[str, Any]]:
        """The first end the server heard."""
        self.console.until(self.console.ends, 10)
        return self.console.ends()[0]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        text, said = self.process.communicate(timeout=15)
        return self.process.returncode, text, said


def pid(path: Path, console: Console) -> int:
    """The pid that a child wrote down."""
    console.until(lambda: path.exists() and path.read_text().strip(), 10)
    return int(path.read_text())


def alive(number: int) -> bool:
    """Whether it runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def python(code: str) -> str:
    return f'{sys.executable} -c "{code}" {{task.json}} {{result.json}} {{progress.json}}'
