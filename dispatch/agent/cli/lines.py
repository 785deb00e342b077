"""The line protocol of a wrapped command: what it may say on stdout, one line each, JSON after the word.

    ::progress {"step": 3, "fraction": 0.5, "note": "reading", "fingerprint": "…", "cost": 1.5}   any of the fields
    ::checkpoint JSON     replaces what the next attempt gets as `checkpoint`
    ::journal JSON        appends to what the next attempt gets as `journal`
    ::result JSON         the task's result; the last one counts
    ::error {"message": "…", "kind": "transient|permanent|tool_limited", "type": "…", "retry_after_s": 60, "tool": "…"}

Every other line is plain output. A line that starts with one of these words but cannot be used raises Malformed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.agent.cli.grammar import strict_json
from dispatch.agent.cli.verdict import KINDS, ErrorReport

WORDS = ("progress", "checkpoint", "journal", "result", "error")
MAX_INT = 2**63 - 1


class Malformed(ValueError):
    """A protocol line that cannot be used."""


@dataclass(frozen=True, slots=True)
class Said:
    """One protocol line: its word and its value (checked fields for progress, an ErrorReport for error)."""

    word: str
    value: Any


def read(line: str) -> Said | None:
    """What a line of stdout says, None for plain output. Raises Malformed."""
    if not line.startswith("::"):
        return None
    word, _, rest = line[2:].partition(" ")
    word = word.strip()
    if word not in WORDS:
        return None
    try:
        value = strict_json(rest)
    except ValueError as error:
        raise Malformed(f"::{word}: {error}") from error
    if word == "progress":
        return Said(word, progress(value))
    if word == "error":
        return Said(word, _error(value))
    return Said(word, value)


def progress(value: Any) -> dict[str, Any]:
    """The known and usable fields of a progress report. Raises Malformed when a field is wrong or none is there."""
    fields = {name: item for name, item in _object("progress", value).items() if item is not None}
    good: dict[str, Any] = {}
    for name, check in PROGRESS.items():
        if name in fields:
            good[name] = check(name, fields.pop(name))
    if fields:
        raise Malformed(f"::progress: unknown {', '.join(sorted(fields))}")
    if not good:
        raise Malformed("::progress: says nothing")
    return good


def _object(word: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"::{word}: must be a JSON object")
    return dict(value)


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_INT <= value <= MAX_INT:
        raise Malformed(f"{name} must be a whole number")
    return value


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e12:
        raise Malformed(f"{name} must be a number from 0")
    return value


def _share(name: str, value: Any) -> float:
    if _number(name, value) > 1:
        raise Malformed(f"{name} must be within 0..1")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{name} must be text")
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")[:500]


PROGRESS: Mapping[str, Any] = {
    "step": _whole,
    "fraction": _share,
    "note": _text,
    "fingerprint": _text,
    "cost": _number,
}


def _error(value: Any) -> ErrorReport:
    fields = {name: item for name, item in _object("error", value).items() if item is not None}
    kind = fields.get("kind")
    if kind not in (None, *KINDS):
        raise Malformed(f"::error: kind must be one of {', '.join(KINDS)}")
    message = fields.get("message", "")
    if not isinstance(message, str):
        raise Malformed("::error: message must be text")
    after, tool, of_type = fields.get("retry_after_s"), fields.get("tool"), fields.get("type")
    return ErrorReport(
        message=message,
        kind=kind,
        type=None if of_type is None else _text("type", of_type),
        retry_after_s=None if after is None else _number("retry_after_s", after),
        tool=None if tool is None else _text("tool", tool),
    )
