"""Rows as CSV, streamed; a text that a spreadsheet would take for a formula gets an apostrophe before it."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.http import StreamingHttpResponse

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


def download(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """An answer that a browser saves under `name`."""
    writer = csv.writer(_Line())

    def lines() -> Iterator[str]:
        yield writer.writerow(head)
        for row in rows:
            yield writer.writerow([cell(value) for value in row])

    return StreamingHttpResponse(
        lines(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )
