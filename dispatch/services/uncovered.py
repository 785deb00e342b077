"""Alerts on queued work that no live worker can do: one per pool and capability set, resolved by themselves.

Called by the reconciler each second. A paused worker counts as able (its pause ends), a draining or quarantined one
does not. With no agent at all the sets that wait are named just the same, and `no_workers` says why.
"""

from collections import defaultdict
from typing import Any

from dispatch.core.alerting import NO_CAPABLE_WORKER, NO_WORKERS, Finding
from dispatch.services import alerts
from dispatch.store import db

RULE = NO_CAPABLE_WORKER
MOST = 100  # alerts raised in one round: a submitter of nonsense sets must not flood the list


def watch() -> int:
    """Raise and resolve the alerts; how many sets are uncovered."""
    with db.atomic():
        found = db.rows("uncovered_work")
        kept = [_uncovered(row) for row in found[:MOST]]
        alerts.settle(RULE, kept)
        alerts.settle(NO_WORKERS, _without_workers(found))
    return len(found)


def _uncovered(row: dict[str, Any]) -> Finding:
    return Finding(
        rule=RULE,
        subject=f"capset:{row['pool_id']}/{row['capset_id']}",
        severity="warning",
        text=_text(row),
        evidence={"capabilities": row["names"], "missing": row["missing"], "queues": row["lanes"]},
        pool_id=row["pool_id"],
    )


def _without_workers(found: list[dict[str, Any]]) -> list[Finding]:
    queues: dict[int, int] = defaultdict(int)
    for row in found:
        if not row["workers"]:
            queues[row["pool_id"]] += row["lanes"]
    return [
        Finding(
            rule=NO_WORKERS,
            subject=f"pool:{pool_id}",
            severity="critical",
            text=f"No live worker at all. {_waiting(lanes)}.",
            evidence={"queues": lanes},
            pool_id=pool_id,
        )
        for pool_id, lanes in sorted(queues.items())
    ]


def _waiting(lanes: int) -> str:
    return "1 queue waits" if lanes == 1 else f"{lanes} queues wait"


def _text(row: dict[str, Any]) -> str:
    queues = _waiting(row["lanes"])
    if row["missing"]:
        return f"No eligible worker: {', '.join(row['missing'])}. {queues}."
    if row["names"]:
        return f"No live worker offers {' and '.join(row['names'])} together. {queues}."
    return f"No live worker. {queues}."
