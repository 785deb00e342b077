"""The rules between an edited object and the rest of the policy: refusals as Invalid, doubts as warnings."""

from dispatch.core import validate
from dispatch.errors import Invalid
from dispatch.store import policy as store

Warning_ = dict[str, str]


def check(kind: str, row: store.Row, changed: frozenset[str]) -> list[Warning_]:
    """Raise Invalid where the edited object contradicts itself or its pool; the warnings otherwise."""
    values = {name: getattr(row, name) for name in validate.FIELDS[kind] if name != "pool"}
    if problems := validate.cross_fields(kind, values, changed):
        raise Invalid(*problems)
    return []
