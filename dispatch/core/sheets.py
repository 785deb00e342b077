"""Rows as lines of CSV; a text that a spreadsheet would take for a formula gets an apostrophe before it."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Line:
    """What csv writes to: hands the line back."""

    def write(self, line: str) -> str:
        """The line itself."""
        return line


def cell(value: Any) -> Any:
    """A value as it stands in a sheet."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        text = value.replace("\0", "")
        return f"'{text}" if text.startswith(FORMULA) else text
    return "" if value is None else value


def lines(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The head and then each row, one line at a time."""
    writer = csv.writer(_Line())
    yield writer.writerow(head)
    for row in rows:
        yield writer.writerow([cell(value) for value in row])
