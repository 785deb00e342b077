"""The last minutes of every class, from the reconciler's samples: what the charts of the console draw."""

from dispatch.services import access
from dispatch.services.messages import Caller
from dispatch.store import db


def class_history(caller: Caller, pool: str, span_s: int = 900, step_s: int = 10) -> dict[str, list[float | None]]:
    """Oldest queue age in seconds of each class of a pool, one value a step, oldest first; None where nothing waited.

    Steps are whole multiples of `step_s` of the clock. The samples are those of all tenants, so callers who do not see
    them all get nothing.
    """
    if not access.everywhere(caller):
        return {}
    rows = db.rows("class_history", {"pool": pool, "span_s": span_s, "step_s": step_s})
    found: dict[str, list[float | None]] = {}
    for row in rows:
        line = found.setdefault(row["slug"], [None] * (span_s // step_s))
        if 0 <= row["back"] < len(line):
            line[-1 - row["back"]] = row["oldest_age_s"]
    return found


def dead_kinds(caller: Caller, pool: str) -> dict[str, int]:
    """`groups` of dead letters by what they died of, and `new_1h`, those that began within the last hour."""
    found = db.one("numbers_dead_kinds", {"pool": pool, "tenants": access.visible_tenants(caller)})
    return found or {"groups": 0, "new_1h": 0}
