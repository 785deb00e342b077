"""Keyset paging: opaque signed cursors that name the last row seen, so pages are stable under inserts and deletes."""

from collections.abc import Callable
from typing import Any

from django.core import signing

from dispatch.errors import Invalid
from dispatch.services.messages import Page

MAX_LIMIT = 1000


def check_limit(limit: Any) -> int:
    """The limit as a number 1..1000, else Invalid on `limit`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise Invalid(("limit", f"must be a whole number from 1 to {MAX_LIMIT}"))
    return limit


def encode(kind: str, position: list[Any]) -> str:
    """A cursor of one list (`kind`) at a position of plain JSON values."""
    return signing.dumps(position, salt=f"cursor.{kind}")


def decode(kind: str, cursor: str) -> list[Any]:
    """The position of a cursor that `encode` made for this kind of list, else Invalid on `cursor`."""
    try:
        position = signing.loads(cursor, salt=f"cursor.{kind}")
    except (signing.BadSignature, ValueError) as problem:
        raise Invalid(("cursor", "is not a cursor of this list")) from problem
    return list(position)


def page(kind: str, found: list[dict[str, Any]], limit: int, position: Callable[[dict[str, Any]], list[Any]]) -> Page:
    """A page out of at most `limit + 1` rows: the row too many only tells that there are more."""
    more = len(found) > limit
    items = found[:limit]
    return Page(items=items, next_cursor=encode(kind, position(items[-1])) if more else None)
