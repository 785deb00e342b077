"""How the end of a child process ends its task: exit code → complete or a kind of failure.

    0               complete
    64, 65, 66      permanent     usage, bad input data, missing input: the same task will fail again → dead at once
    69              tool_limited  a service it needs is not available: waits, uncounted
    75              transient     try again later
    anything else   transient     also when it was killed by a signal

(64 and up: sysexits.h.) `--exit-code 2=permanent` changes or adds an entry; `release` hands the task back uncounted. An
`::error` line of the child says more, and its kind wins over the table.
"""

import argparse
import signal
from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("transient", "permanent", "tool_limited")
RELEASE = "release"
COMPLETE = "complete"
TABLE: Mapping[int, str] = {
    0: COMPLETE,
    64: "permanent",
    65: "permanent",
    66: "permanent",
    69: "tool_limited",
    75: "transient",
}


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What an `::error` line says. `kind` None: the exit code decides."""

    message: str = ""
    kind: str | None = None
    type: str | None = None
    retry_after_s: float | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is "complete", "release" or a kind of failure; the rest is for failures."""

    outcome: str
    message: str = ""
    type: str | None = None
    retry_after_s: float | None = None
    tool: str | None = None


def judge(code: int, error: ErrorReport | None, last_words: str, table: Mapping[int, str] = TABLE) -> Verdict:
    """The verdict on an exit code (negative: the signal that killed it); `last_words` is its last line of stderr."""
    outcome = table.get(code, "transient")
    how = f"killed by {_signal(-code)}" if code < 0 else f"exit code {code}"
    if error is None:
        message = f"{how}: {last_words}" if last_words else how
        return Verdict(outcome, message, type=None if outcome == COMPLETE else how)
    if error.kind is not None:
        outcome = error.kind
    elif outcome == COMPLETE:  # it says that it failed: its word stands against its exit code
        outcome = "transient"
    message = error.message or last_words or how
    return Verdict(outcome, message, error.type or how, error.retry_after_s, error.tool)


def entry(text: str) -> tuple[int, str]:
    """An `--exit-code CODE=KIND` option. Raises argparse.ArgumentTypeError."""
    code, _, kind = text.partition("=")
    if not code.isdigit() or not 0 <= int(code) <= 255 or kind not in (*KINDS, COMPLETE, RELEASE):
        words = ", ".join((*KINDS, COMPLETE, RELEASE))
        raise argparse.ArgumentTypeError(f"{text!r} is not CODE=KIND with CODE 0..255 and KIND {words}")
    return int(code), kind


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
