"""Watch the cost budgets: alert when one is nearly or wholly spent, and do what it says about a breach.

Called by the reconciler. Nearly: the budget's `alert_at` is settled or reserved. Spent: nothing is left, or too little
for a task that waits. Both alerts resolve by themselves, with a new window, a top-up or an override. A spent budget
that degrades has its waiting tasks moved to the other class; one that stops asks its running tasks to hand back.
"""

from typing import Any

from dispatch import events
from dispatch.core import budgets as core
from dispatch.core.alerting import Finding
from dispatch.core.types import MICRO
from dispatch.services import access, alerts, audit
from dispatch.store import budgets as ledger
from dispatch.store import db

LOW = "budget_low"
SPENT = "budget_spent"
BATCH = 5000  # tasks moved, leases asked, in one round
NAME = "reconciler"


def watch() -> int:
    """Raise, resolve, degrade and stop; how many budgets are spent."""
    with db.atomic():
        rows = ledger.state()
        names = {row["id"]: f"{row['tenant']}/{row['slug']}" for row in db.rows("budget_names")}
        spent = [row for row in rows if _is_spent(row)]
        low = [row for row in rows if core.is_low(row["settled"] + row["reserved"], row["amount"], row["alert_at"])]
        alerts.settle(LOW, [_finding(LOW, row, names[row["id"]]) for row in low if row not in spent])
        alerts.settle(SPENT, [_finding(SPENT, row, names[row["id"]]) for row in spent])
    for row in spent:
        if row["on_breach"] == "degrade":
            _degrade(row, names[row["id"]])
        elif row["on_breach"] == "stop":
            _stop(row)
    return len(spent)


def _is_spent(row: ledger.Row) -> bool:
    return row["left"] is not None and (row["left"] <= 0 or row["refused_at"] is not None)


def _finding(rule: str, row: ledger.Row, name: str) -> Finding:
    used, amount = (row["settled"] + row["reserved"]) / MICRO, row["amount"] / MICRO
    until = f" until {row['ends_at']:%Y-%m-%d %H:%M} UTC" if row["ends_at"] else ""
    word = "used up" if rule == SPENT else "nearly used up"
    numbers: dict[str, Any] = {"settled": row["settled"] / MICRO, "reserved": row["reserved"] / MICRO, "limit": amount}
    return Finding(
        rule=rule,
        subject=f"budget:{name}",
        severity="critical" if rule == SPENT else "warning",
        text=f"The budget {name} is {word}{until}: {used:g} of {amount:g} are spent or reserved.",
        evidence=numbers | {"window_end": row["ends_at"], "on_breach": row["on_breach"]},
        tenant_id=row["tenant_id"],
    )


def _degrade(row: ledger.Row, name: str) -> None:
    with db.atomic():
        db.execute("degrade_lanes", {"id": row["id"]})
        pools = [found[0] for found in db.tuples("degrade_tasks", {"id": row["id"], "limit": BATCH})]
        if pools:
            after = {"moved": len(pools)}
            audit.record(access.system(NAME), "degrade_budget", "budget", name, None, after, "spent", row["tenant_id"])
            db.hint(events.POOL, set(pools))
            db.hint(events.LIVE, "tasks")


def _stop(row: ledger.Row) -> None:
    with db.atomic():
        sessions = {found[0] for found in db.tuples("stop_leases", {"id": row["id"], "limit": BATCH})}
        if sessions:
            db.hint(events.SESSION, sessions)
