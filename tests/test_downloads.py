"""Sheets of any length: an ASGI server gets them piece by piece, without a sync iterator in its event loop."""

from asgiref.sync import async_to_sync
from django.test import AsyncRequestFactory, RequestFactory

from dispatch import downloads

ROWS = [["=1+1"], *([n] for n in range(1000))]


def test_an_asgi_server_is_streamed_to_in_pieces() -> None:
    answer = downloads.sheet(AsyncRequestFactory().get("/"), "a.csv", ["id"], ROWS)
    assert answer.is_async

    async def pieces() -> list[bytes]:
        return [piece async for piece in answer]

    found = async_to_sync(pieces)()
    plain = downloads.sheet(RequestFactory().get("/"), "a.csv", ["id"], ROWS)
    assert len(found) == 3, "500 lines each"
    assert b"".join(found) == b"".join(plain.streaming_content)  # type: ignore[arg-type]  # not async here
    assert b"".join(found).startswith(b"id\r\n'=1+1\r\n0\r\n")
