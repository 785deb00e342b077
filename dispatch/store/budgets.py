"""The ledger of cost budgets: locked, settled and read for one dispatch cycle; read without locks for everything else.

A cycle that may grant leases of a tenant locks the tenant's budgets first and reads them after that, so dispatchers of
several pools spend one after the other. Settled is what this and earlier cycles consumed; reserved is counted from
live leases and unconsumed settlements in the same statement, so nothing is counted twice or left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dispatch.core.types import MICRO, CostBudget, Ended
from dispatch.store import db

Row = dict[str, Any]


def take(pool_id: int, tenants: Iterable[int], ended: Sequence[Ended]) -> list[Row]:
    """For a dispatch cycle: lock the budgets of these tenants and of what ended, settle that, read their state."""
    wanted = sorted({*tenants, *(one.tenant for one in ended)})
    ids = [row[0] for row in db.tuples("lock_budgets", {"tenants": wanted})] if wanted else []
    if not ids:
        return []
    _settle(pool_id, ended)
    return state(ids=ids)


def _settle(pool_id: int, ended: Sequence[Ended]) -> None:
    costs: dict[tuple[int, int, int], int] = {}
    for one in ended:
        key = (one.tenant, one.work_class, one.user)
        costs[key] = costs.get(key, 0) + one.actual
    costs = {key: cost for key, cost in costs.items() if cost}
    if costs:
        params: dict[str, Any] = {"pool_id": pool_id, "costs": list(costs.values())}
        for place, name in enumerate(("tenants", "classes", "users")):
            params[name] = [key[place] for key in costs]
        db.execute("settle_budgets", params)


def state(*, ids: list[int] | None = None, tenants: list[int] | None = None) -> list[Row]:
    """Budgets as they stand (statement budget_state), with `left` (None: no limit just now)."""
    rows = db.rows("budget_state", {"ids": ids, "tenants": tenants})
    for row in rows:
        row["left"] = None if row["amount"] is None else row["amount"] - row["settled"] - row["reserved"]
    return rows


def policy(rows: Iterable[Row], unit: str) -> dict[int, CostBudget]:
    """Those that limit a pool of this cost unit, as the core judges them."""
    return {
        row["id"]: CostBudget(
            tenant=row["tenant_id"],
            left=row["left"],
            limit=row["amount"],
            work_class=row["work_class_id"],
            user=row["user_id"],
            spared=row["degrade_to_id"],
            refused=row["refused_at"] is not None,
            until=None if row["ends_at"] is None else round(row["ends_at"].timestamp() * MICRO),
        )
        for row in rows
        if row["left"] is not None and row["unit"] in {"", unit}
    }


def mark(rows: Iterable[Row], refused: frozenset[int], paid: frozenset[int]) -> None:
    """Remember which budgets keep something waiting; one that paid without refusing keeps nothing."""
    changed = {row["id"]: row for row in rows if _changes(row, refused, paid)}
    if changed:
        params: dict[str, Any] = {"ids": list(changed), "starts": [row["starts_at"] for row in changed.values()]}
        db.execute("mark_budgets", params | {"refused": [id_ in refused for id_ in changed]})


def _changes(row: Row, refused: frozenset[int], paid: frozenset[int]) -> bool:
    if row["id"] in refused:
        return row["refused_at"] is None
    return row["refused_at"] is not None and row["id"] in paid
