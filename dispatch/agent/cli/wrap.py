"""One task run by a command: the task into a file, the child under its lease, its end into the task's end.

The child gets the task as JSON in a file of a private folder (`{task.json}` in the command, EVENFLOW_TASK_FILE). It may
write its result to `{result.json}` (EVENFLOW_RESULT_FILE) and its progress to `{progress.json}` (one object, or JSON
lines of which the last counts; EVENFLOW_PROGRESS_FILE). It never gets the lease's token, nor EVENFLOW_KEY unless asked.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatch.agent import Job, LeaseLost
from dispatch.agent.cli import lines, verdict
from dispatch.agent.cli.child import Child
from dispatch.agent.cli.grammar import strict_json
from dispatch.agent.cli.guard import Guard
from dispatch.agent.errors import AgentError, ApiError, Stop, Unreachable
from dispatch.agent.job import EXIT_RETRY_S

FIELDS = (
    *("task_id", "attempt", "type", "payload", "tenant", "user", "cost", "priority"),
    *("progress_timeout_s", "max_runtime_s", "deadline", "journal"),
)
FIRST_POLL_S, LAST_POLL_S = 0.01, 0.1  # between two looks at the child
FILE_POLL_S = 1.0  # between two looks at its progress file
MAX_STDOUT = 512 * 1024  # characters kept for --stdout-result
MAX_ECHO = 4000  # characters of an output line that are repeated
MAX_WARNINGS = 20  # about one task's lines
UNSET = object()
Tell = Callable[[str, Job, dict[str, Any]], None]  # event, job, more


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How commands are run; see `evenflow work --help`."""

    command: Sequence[str]
    grace_s: float = 10.0
    table: Mapping[int, str] = field(default_factory=lambda: verdict.TABLE)
    stdin: bool = False
    stdout_result: bool = False
    pass_key: bool = False


class Wrapped:
    """One task and its child."""

    def __init__(self, job: Job, options: Options, guard: Guard, tell: Tell) -> None:
        self._job = job
        self._options = options
        self._guard = guard
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp(prefix="evenflow-"))
        self._result: Any = UNSET
        self._bad_result = ""
        self._error: verdict.ErrorReport | None = None
        self._cost: float | None = None
        self._stdout: list[str] = []
        self._stdout_size = 0
        self._warnings = 0
        self._file_seen: tuple[int, int] | None = None

    def run(self) -> bool:
        """Run the child to its end and end the task; True when it was completed.

        Raises OSError when the command cannot be started (the task is still in hand), LeaseLost, ApiError, Stop.
        """
        try:
            child = self._start()
            try:
                code, stopped = self._accompany(child)
            except BaseException:
                child.stop(0.0)
                raise
            finally:
                child.finish()
            if self._job.lost:
                raise LeaseLost(f"task {self._job.task_id}: the lease is lost")
            if stopped:
                self._release(stopped)
                return False
            return self._end(verdict.judge(code, self._error, _last(child.tail), self._options.table), child, code)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    # The child's life

    def _start(self) -> Child:
        files = {name: str(self._folder / name) for name in ("task.json", "result.json", "progress.json")}
        task = {name: getattr(self._job, name) for name in FIELDS}
        task |= {"class": self._job.class_, "checkpoint": self._job.saved}
        Path(files["task.json"]).write_text(json.dumps(task), encoding="utf-8")
        command = [_fill(word, files) for word in self._options.command]
        stdin = os.open(files["task.json"], os.O_RDONLY) if self._options.stdin else subprocess.DEVNULL
        try:
            child = Child(command, self._env(files), self._guard, self._hear, stdin)
        finally:
            if stdin >= 0:
                os.close(stdin)
        self._tell("started", self._job, {"pid": child.group})
        return child

    def _env(self, files: Mapping[str, str]) -> dict[str, str]:
        env = dict(os.environ)
        if not self._options.pass_key:
            env.pop("EVENFLOW_KEY", None)
        return env | {
            "EVENFLOW_TASK_ID": str(self._job.task_id),
            "EVENFLOW_TASK_TYPE": self._job.type,
            "EVENFLOW_ATTEMPT": str(self._job.attempt),
            "EVENFLOW_TASK_FILE": files["task.json"],
            "EVENFLOW_RESULT_FILE": files["result.json"],
            "EVENFLOW_PROGRESS_FILE": files["progress.json"],
        }

    def _accompany(self, child: Child) -> tuple[int, str]:
        """Until its end: the exit code, and why it was stopped ("" when it ended by itself)."""
        pause, look_at = FIRST_POLL_S, time.monotonic() + FILE_POLL_S
        while (code := child.poll()) is None:
            if self._job.stop.wait(pause):
                reason = self._reason()
                self._tell("stopping", self._job, {"reason": reason})
                return child.stop(self._options.grace_s), reason
            pause = min(pause * 1.3, LAST_POLL_S)
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + FILE_POLL_S
        return code, ""

    def _reason(self) -> str:
        if self._job.lost:
            return "lost"
        return "cancel" if self._job.cancelled else "yield" if self._job.should_yield else "the agent stops"

    # What it says

    def _hear(self, stream: str, line: str, cut: bool) -> None:
        said = None
        if stream == "stdout":
            try:
                said = lines.read(line)
            except lines.Malformed as error:
                self._warn(f"ignored a line: {'it is too long' if cut else error}")
                if line.startswith("::result"):
                    self._bad_result = str(error)
                return
        if said is not None:
            self._obey(said)
            return
        if stream == "stdout" and self._options.stdout_result and self._stdout_size < MAX_STDOUT:
            self._stdout.append(line)
            self._stdout_size += len(line) + 1
        self._tell("output", self._job, {"stream": stream, "line": line[:MAX_ECHO]})

    def _obey(self, said: lines.Said) -> None:
        if said.word == "result":
            self._result, self._bad_result = said.value, ""
        elif said.word == "error":
            self._error = said.value
        elif said.word == "progress":
            self._progress(said.value)
        else:
            try:
                self._job.checkpoint(said.value, append=said.word == "journal")
            except LeaseLost:
                return  # the loop hears of it by job.stop
            except AgentError as error:
                self._warn(f"::{said.word} was not stored: {error}")

    def _progress(self, report: dict[str, Any]) -> None:
        self._cost = report.get("cost", self._cost)
        try:
            self._job.progress(**report)
        except LeaseLost:
            return

    def _look(self) -> None:
        """Read the progress file if it has changed; what is half written now is read the next time."""
        path = self._folder / "progress.json"
        try:
            status = path.stat()
            if self._file_seen == (status.st_mtime_ns, status.st_size) or status.st_size > MAX_STDOUT:
                return
            text = path.read_text(encoding="utf-8").strip()
            self._progress(lines.progress(_last_json(text)))
        except lines.Malformed as error:
            self._warn(f"ignored the progress file: {error}")
        except (OSError, ValueError):
            return
        self._file_seen = (status.st_mtime_ns, status.st_size)

    def _warn(self, text: str) -> None:
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            self._tell("warning", self._job, {"text": text})

    # Its end

    def _end(self, end: verdict.Verdict, child: Child, code: int) -> bool:
        result = UNSET
        if end.outcome == verdict.COMPLETE:
            result, bad = self._take_result()
            if bad:
                end = verdict.Verdict("transient", f"the result is not JSON: {bad}", "BadResult")
        if end.outcome == verdict.COMPLETE:
            try:
                self._insist(lambda: self._job.complete(None if result is UNSET else result, cost=self._cost))
                self._tell("completed", self._job, {"exit_code": code})
                return True
            except ApiError as error:  # too large, or text that no JSON of the API holds
                end = verdict.Verdict("transient", f"the server refused the result: {error}", "RefusedResult")
        if end.outcome == verdict.RELEASE:
            self._release(end.message or f"exit code {code}")
            return False
        self._fail(end, "\n".join(child.tail))
        self._tell("failed", self._job, {"exit_code": code, "kind": end.outcome, "message": end.message})
        return False

    def _fail(self, end: verdict.Verdict, stack: str) -> None:
        job = self._job
        try:
            self._insist(
                lambda: job.fail(
                    end.message,
                    kind=end.outcome,
                    type=end.type,
                    stack=stack or None,
                    retry_after_s=end.retry_after_s,
                    tool=end.tool,
                )
            )
        except ApiError as error:
            if error.status != 422:
                raise
            self._warn(f"the server does not take that error ({error}); failing without its details")
            self._insist(lambda: self._job.fail(end.message, kind="transient", type=end.type))

    def _take_result(self) -> tuple[Any, str]:
        """The result, and what is wrong with it ("" for nothing)."""
        if self._result is not UNSET or self._bad_result:
            return self._result, self._bad_result
        path = self._folder / "result.json"
        if path.exists():
            try:
                return strict_json(path.read_text(encoding="utf-8")), ""
            except (OSError, ValueError) as error:
                return UNSET, f"{path.name}: {error}"
        if self._options.stdout_result:
            return {"stdout": "\n".join(self._stdout)[:MAX_STDOUT], "cut": self._stdout_size >= MAX_STDOUT}, ""
        return UNSET, ""

    def _insist(self, call: Callable[[], Any]) -> None:
        """Through an outage of any length: the lease may outlive it, and only the server knows."""
        while True:
            try:
                call()
                return
            except Unreachable as error:
                if self._job.stop:
                    raise Stop("the agent stops") from error  # leaving the job's block tries to release it
                self._warn(f"the end cannot be reported yet: {error}")

    def _release(self, reason: str) -> None:
        try:
            self._job.release(reason, retry_for_s=EXIT_RETRY_S)
        except Unreachable as error:
            self._warn(f"the task cannot be handed back yet: {error}")
            raise Stop(reason) from error  # leaving the job's block tries once more
        self._tell("released", self._job, {"reason": reason})


def _fill(word: str, files: Mapping[str, str]) -> str:
    for name, path in files.items():
        word = word.replace(f"{{{name}}}", path)
    return word


def _last_json(text: str) -> Any:
    try:
        return strict_json(text)
    except ValueError:
        return strict_json(text.rsplit("\n", 1)[-1])


def _last(tail: Sequence[str]) -> str:
    return tail[-1].strip() if tail else ""
