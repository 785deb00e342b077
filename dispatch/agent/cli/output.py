"""What commands print: tables and lines for people, JSON for programs, never control characters of others.

Text that came from outside (names, errors, notes, a child's output) is cleaned before it reaches a terminal: anything
unprintable, escape sequences and text-direction marks included, is shown as `\\x1b` and the like. JSON is ASCII.
"""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dispatch.agent.cli.exits import Problem

COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]")
NONE = "–"


class Output:
    """One command's voice. Results go to stdout, everything said about them to stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def document(self, value: Any) -> None:
        """The whole answer, with --json."""
        print(json.dumps(value, indent=None if not sys.stdout.isatty() else 2))

    def line(self, text: str = "") -> None:
        """A line of the result."""
        print(clean(text))

    def note(self, text: str) -> None:
        """A line beside the result."""
        print(clean(text), file=sys.stderr, flush=True)

    def problem(self, problem: Problem) -> None:
        """Why the command ends without a result."""
        if self.as_json:
            shown = {"error": problem.slug, "detail": problem.sentence, "hint": problem.hint, "exit": problem.code}
            more = {"status": problem.status, "errors": problem.errors or None}
            given = {name: value for name, value in more.items() if value is not None}
            print(json.dumps({**shown, **given}), file=sys.stderr)
            return
        sentence = problem.sentence.rstrip(".")
        self.note(f"evenflow: {sentence}.{' ' + problem.hint if problem.hint else ''}")

    def warnings(self, answer: Mapping[str, Any]) -> None:
        """The warnings an answer may carry; they never refuse anything."""
        for item in answer.get("warnings") or ():
            self.note(f"warning: {item.get('field')}: {item.get('message')}")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns; a head that starts with ">" is aligned to the right. The last column is cut to the terminal."""
        texts = [[head.lstrip(">") for head in heads], *([cell(value) for value in row] for row in rows)]
        widths = [max(len(row[number]) for row in texts) for number in range(len(heads))]
        limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for row in texts:
            parts = [
                text.rjust(width) if head.startswith(">") else text.ljust(width)
                for text, width, head in zip(row, widths, heads, strict=True)
            ]
            print("  ".join(parts).rstrip()[:limit])


def clean(text: str) -> str:
    """`text` on one line, safe for a terminal: colours are dropped, anything else unprintable is written out."""
    bare = COLOURS.sub("", text).replace("\t", " ")
    if bare.isprintable():
        return bare
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in bare)


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        return clean(",".join(str(item) for item in value)) or NONE
    return clean(str(value))


def age(seconds: float | None) -> str:
    """A duration as people say it: `0.4s`, `12s`, `3m05s`, `2h10m`, `4d02h`."""
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    for size, unit, next_size, next_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // next_size:02d}{next_unit}"
    return f"{whole}s"


def percent(share: float | None) -> str:
    """A share 0..1."""
    return NONE if share is None else f"{share * 100:.1f}%"


def moment(text: Any) -> str:
    """An RFC 3339 time as `2026-11-30 13:05:09Z`; what is none is shown as it is."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return cell(text)
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at.tzinfo else cell(text)
