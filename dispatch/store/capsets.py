"""Interned capability sets: lanes and sessions point at a row, so sets compare by id. Rows never change."""

import json
from collections.abc import Iterable

from dispatch.store import db

CapKey = tuple[str, ...]  # sorted, without doubles


def intern(sets: Iterable[Iterable[str]]) -> dict[CapKey, int]:
    """Ids by sorted names; unknown sets and names come into being. Runs inside the caller's transaction."""
    keys = sorted({tuple(sorted(set(names))) for names in sets})
    params = {"sets": [json.dumps(key) for key in keys]}
    found = _find(params)
    if len(found) < len(keys):
        db.execute("intern_capsets", params)
        found = _find(params)
    return found


def _find(params: dict[str, list[str]]) -> dict[CapKey, int]:
    return {tuple(names): id_ for id_, names in db.tuples("find_capsets", params)}
