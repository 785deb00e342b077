"""Rows as CSV, streamed to the browser (core/sheets.py: no cell is a formula)."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.http import StreamingHttpResponse

from dispatch.core import sheets


def download(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """An answer that a browser saves under `name`."""
    return StreamingHttpResponse(
        sheets.lines(head, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )
