"""What the demo's agents do: real work on real files, and two kinds of trouble.

Every handler takes a Job and returns its result. Payloads (JSON objects; unknown fields are ignored):
`index_text` {"folder", "pattern"?} counts the words of text files · `hash_files` {"folder", "pattern"?} hashes files ·
`run_command` {"command"} runs one of COMMANDS · `sleep_work` {"seconds", "steps"?} waits step by step and resumes where
an earlier attempt stopped · `poison` always fails. All take "pace_s": seconds to rest after each step (so that a demo
shows tasks of all lengths). Folders are below the agent's root; anything else fails the task for good.
"""

import hashlib
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dispatch.agent import Job, TaskError

MAX_FILES = 500  # of one task
MAX_BYTES = 1_000_000  # read of one file
MAX_SECONDS = 3600.0
TOP = 20  # words in a result
COMMANDS: dict[str, list[str]] = {
    "python-version": [sys.executable, "--version"],
    "system": ["uname", "-a"],
    "uptime": ["uptime"],
    "disk": ["df", "-h", "."],
    "date": ["date", "-u", "+%FT%TZ"],
}


class Work:
    """The handlers, bound to the folder they may read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.handlers: dict[str, Callable[[Job], Any]] = {
            "index_text": self.index_text,
            "hash_files": self.hash_files,
            "run_command": self.run_command,
            "sleep_work": self.sleep_work,
            "poison": self.poison,
        }

    def index_text(self, job: Job) -> dict[str, Any]:
        """Words, lines and the most frequent words of a folder's text files."""
        words: Counter[str] = Counter()
        lines = files = 0
        for path in self._files(job, "*.md"):
            text = path.read_bytes()[:MAX_BYTES].decode(errors="replace")
            words.update(word.strip(".,;:()[]`*#\"'").lower() for word in text.split())
            lines += text.count("\n")
            files += 1
        del words[""]
        top = dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))[:TOP])
        return {"files": files, "lines": lines, "words": words.total(), "distinct": len(words), "top": top}

    def hash_files(self, job: Job) -> dict[str, Any]:
        """The SHA-256 of each file of a folder and one over all."""
        whole, size, hashes = hashlib.sha256(), 0, {}
        for path in self._files(job, "*"):
            data = path.read_bytes()
            hashes[path.name] = hashlib.sha256(data).hexdigest()
            whole.update(data)
            size += len(data)
        return {"files": hashes, "bytes": size, "sha256": whole.hexdigest()}

    def run_command(self, job: Job) -> dict[str, Any]:
        """Run a command by its name in COMMANDS; its output is the result."""
        name = _field(job, "command", str)
        if name not in COMMANDS:
            raise TaskError(f"no such command: {name!r}; there are {', '.join(COMMANDS)}", kind="permanent")
        run = subprocess.run(COMMANDS[name], capture_output=True, text=True, timeout=30, check=False)
        if run.returncode:
            raise TaskError(f"{name} ended with {run.returncode}: {run.stderr.strip()[:500]}")
        _rest(job)
        return {"host": platform.node(), "output": run.stdout.strip()}

    def sleep_work(self, job: Job) -> dict[str, Any]:
        """Wait `seconds` in `steps` steps; a checkpoint after each lets the next attempt go on from there."""
        seconds = float(_field(job, "seconds", (int, float)))
        steps = int(job.payload.get("steps", 5))
        if not 0 <= seconds <= MAX_SECONDS or not 1 <= steps <= 1000:
            raise TaskError("seconds must be within 0..3600 and steps within 1..1000", kind="permanent")
        first = job.saved["step"] if job.saved else 0
        for step in range(first, steps):
            job.stop.wait(seconds / steps)
            job.check()
            job.progress(step=step + 1, fraction=(step + 1) / steps, note=f"step {step + 1} of {steps}")
            job.checkpoint({"step": step + 1})
        return {"steps": steps, "resumed_at": first}

    def poison(self, job: Job) -> None:
        """Fail, always: the task that ends as a dead letter."""
        _rest(job)
        raise ValueError(f"cannot parse record {job.task_id}: unexpected end of input")

    def _files(self, job: Job, pattern: str) -> Iterator[Path]:
        """The task's files in name order, with progress after each and a chance to stop."""
        folder = (self._root / _field(job, "folder", str)).resolve()
        if not folder.is_relative_to(self._root) or not folder.is_dir():
            raise TaskError(f"no such folder below the agent's root: {job.payload['folder']!r}", kind="permanent")
        found = sorted(path for path in folder.rglob(str(job.payload.get("pattern", pattern))) if path.is_file())
        paths = found[:MAX_FILES]
        for number, path in enumerate(paths, 1):
            job.check()
            yield path
            _rest(job)
            job.progress(step=number, fraction=number / len(paths), note=path.name)


def _field(job: Job, name: str, kind: Any) -> Any:
    value = job.payload.get(name) if isinstance(job.payload, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TaskError(f"payload.{name} is missing or of the wrong kind", kind="permanent")
    return value


def _rest(job: Job) -> None:
    pace = job.payload.get("pace_s", 0) if isinstance(job.payload, dict) else 0
    if isinstance(pace, (int, float)) and pace > 0:
        job.stop.wait(min(float(pace), MAX_SECONDS))
        job.check()
