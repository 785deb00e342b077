"""Sheets that are sent while they are still being read: of any length, never whole in memory."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from dispatch.core import sheets

LINES = 500  # read and sent at once


def sheet(request: HttpRequest, name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """Rows as CSV (core/sheets.py: no cell is a formula), to be saved under `name`."""
    lines = sheets.lines(head, rows)
    return StreamingHttpResponse(
        _async(lines) if isinstance(request, ASGIRequest) else lines,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )


async def _async(lines: Iterator[str]) -> AsyncIterator[str]:
    """Read in a thread, so that the event loop serves others meanwhile."""
    read = sync_to_async(lambda: "".join(islice(lines, LINES)))
    while chunk := await read():
        yield chunk
