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


def _all(kind: str) -> list[dict[str, Any]]:
    return [_values(kind, row) for row in store.all_of(kind)]


def _setting(kind: str, row: store.Row) -> consistency.Setting:
    pool = {"pool": row, "class": getattr(row, "pool", None)}.get(kind)
    classes = store.all_of("class") if pool is None else store.of_pool(pool.pk)
    facts = db.rows("policy_facts", {"kind": kind, "id": row.pk, "pool_id": pool.pk if pool else None})[0]
    users = dict(db.tuples("policy_user_maxima", {"tenant_id": row.pk})) if kind == "tenant" else {}
    return consistency.Setting(
        pool=_values("pool", pool) if pool else None,
        pools=_all("pool") if kind in {"pool", "tenant"} else [],
        classes=[_values("class", one) for one in classes],
        tenants=_all("tenant"),
        live_slots=facts["live_slots"],
        running=facts["running"],
        user_maxima=users,
    )
