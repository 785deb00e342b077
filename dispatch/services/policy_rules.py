"""Judge an edited object inside the whole policy: refusals as Invalid, doubts as the answer's `warnings`."""

from typing import Any

from dispatch.core import consistency, validate
from dispatch.errors import Invalid
from dispatch.store import db
from dispatch.store import policy as store


def check(kind: str, row: store.Row, changed: frozenset[str]) -> list[dict[str, str]]:
    """Raise Invalid where the object contradicts itself or the policy around it; the warnings otherwise."""
    value = _values(kind, row)
    if problems := validate.cross_fields(kind, value, changed):
        raise Invalid(*problems)
    setting = _setting(kind, row)
    if problems := consistency.errors(kind, changed, setting):
        raise Invalid(*problems)
    return [{"field": name, "message": text} for name, text in consistency.warnings(kind, value, setting)]


def _values(kind: str, row: store.Row) -> dict[str, Any]:
    names = [name for name in validate.FIELDS[kind] if name != "pool"]
    return {"slug": row.slug} | {name: getattr(row, name) for name in names}


def _around(kind: str, rows: list[store.Row], edited_kind: str, edited: store.Row) -> list[dict[str, Any]]:
    """The values of all rows of a kind, the edited one as it would be: it need not be saved."""
    return [_values(kind, edited if kind == edited_kind and row.pk == edited.pk else row) for row in rows]


def _setting(kind: str, row: store.Row) -> consistency.Setting:
    pool = {"pool": row, "class": getattr(row, "pool", None)}.get(kind)
    classes = store.all_of("class") if pool is None else store.of_pool(pool.pk)
    facts = db.rows("policy_facts", {"kind": kind, "id": row.pk, "pool_id": pool.pk if pool else None})[0]
    users = dict(db.tuples("policy_user_maxima", {"tenant_id": row.pk})) if kind == "tenant" else {}
    return consistency.Setting(
        pool=_values("pool", pool) if pool else None,
        pools=_around("pool", store.all_of("pool"), kind, row) if kind in {"pool", "tenant"} else [],
        classes=_around("class", classes, kind, row),
        tenants=_around("tenant", store.all_of("tenant"), kind, row),
        live_slots=facts["live_slots"],
        running=facts["running"],
        user_maxima=users,
    )
