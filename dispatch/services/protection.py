"""Quarantine workers at which everything fails, and hold task types that fail everywhere (rules: core/protection.py).

Called by the reconciler. A quarantined worker gets no new work until an operator lifts it (PATCH /workers/{id}), which
also forgets its streak. An open breaker holds the waiting tasks of one type of one tenant in one pool, also new ones,
for EVENFLOW_BREAKER_HOLD_S; then they are tried again, and it opens again if they fail again. Both leave an alert.
EVENFLOW_QUARANTINE_TASKS and EVENFLOW_BREAKER_FAILURES are the thresholds; 0 turns a rule off.
"""

import logging
from collections import defaultdict
from typing import Any

from django.conf import settings

from dispatch import events
from dispatch.core import protection
from dispatch.core.alerting import Finding
from dispatch.services import access, alerts, audit
from dispatch.services.worker_control import QUARANTINE
from dispatch.store import db

BREAKER = "breaker"
BATCH = 5000  # tasks held or let go in one statement
NAME = "reconciler"

logger = logging.getLogger(__name__)


def quarantine() -> int:
    """Quarantine workers that fail at what others succeed with; how many."""
    threshold = settings.EVENFLOW_QUARANTINE_TASKS
    if not threshold:
        return 0
    found = 0
    with db.atomic():
        working: dict[int, set[tuple[int, str]]] = {}
        for streak, pool_id in _streaks(threshold):
            if pool_id not in working:
                working[pool_id] = set(db.tuples("types_that_work", {"pool_id": pool_id}))
            elsewhere = {kind for worker, kind in working[pool_id] if worker != streak.worker}
            if protection.to_quarantine(streak, elsewhere, threshold):
                found += _quarantine(streak)
    return found


def _streaks(threshold: int) -> list[tuple[protection.Streak, int]]:
    tasks: dict[tuple[int, int, int], dict[str, int]] = defaultdict(dict)
    for row in db.rows("failing_streaks", {"threshold": threshold}):
        tasks[row["session_id"], row["worker_id"], row["pool_id"]][row["type"]] = row["tasks"]
    return [(protection.Streak(session, worker, kinds), pool) for (session, worker, pool), kinds in tasks.items()]


def _quarantine(streak: protection.Streak) -> int:
    row = db.one("quarantine_worker", {"worker_id": streak.worker})
    if row is None:
        return 0
    tasks = sum(streak.tasks.values())
    text = (
        f"Worker {row['name']} is quarantined: {tasks} different tasks failed in a row while others succeed with them."
    )
    evidence = {"worker_id": streak.worker, "session_id": streak.session, "tasks": dict(streak.tasks)}
    finding = Finding(
        rule=QUARANTINE,
        subject=f"worker:{streak.worker}",
        severity="warning",
        text=text,
        evidence=evidence,
        pool_id=row["pool_id"],
    )
    alerts.raise_all([finding])
    states = {"quarantined": False}, {"quarantined": True}
    audit.record(access.system(NAME), "quarantine_worker", "worker", row["name"], *states, text)
    db.hint(events.LIVE, "workers")
    logger.warning("%s", text, extra={"action": "quarantined"})
    return 1


def breakers() -> int:
    """Open breakers of types that fail everywhere, hold their tasks, close those whose time is over; tasks moved."""
    threshold = settings.EVENFLOW_BREAKER_FAILURES
    if threshold:
        with db.atomic():
            for row in db.rows("failing_types", {"threshold": threshold}):
                record = protection.Record(
                    row["pool_id"], row["tenant_id"], row["type"], row["failures"], row["workers"], row["successes"]
                )
                if protection.trips(record, threshold):
                    _open(record)
    moved = 0
    for breaker in db.rows("open_breakers", {"hold_s": settings.EVENFLOW_BREAKER_HOLD_S}):
        with db.atomic():
            moved += _close(breaker) if breaker["over"] or not threshold else _hold(breaker)
    return moved


def _open(record: protection.Record) -> None:
    ended = record.failures + record.successes
    failed = f"{record.failures} of {ended} attempts failed on {record.workers} workers"
    text = f"Tasks of type {record.type} are held: {failed}."
    evidence = {"type": record.type, "failures": record.failures, "workers": record.workers, "ended": ended}
    finding = Finding(
        rule=BREAKER,
        subject=f"{record.pool}/{record.tenant}/{record.type}",
        severity="critical",
        text=text,
        evidence=evidence,
        pool_id=record.pool,
        tenant_id=record.tenant,
    )
    if alerts.raise_all([finding]):
        logger.warning("%s", text, extra={"action": "breaker_opened"})


def _hold(breaker: dict[str, Any]) -> int:
    moved = db.execute("hold_type", _of(breaker))
    if moved:
        db.hint(events.LIVE, "tasks")
    return moved


def _close(breaker: dict[str, Any]) -> int:
    """Let the tasks go; with the last of them the alert is resolved."""
    moved = db.execute("let_type_go", _of(breaker))
    if moved < BATCH:
        alerts.resolve(BREAKER, breaker["subject"])
    db.hint(events.POOL, [breaker["pool_id"]])
    db.hint(events.LIVE, "tasks")
    return moved


def _of(breaker: dict[str, Any]) -> dict[str, Any]:
    return {name: breaker[name] for name in ("type", "tenant_id", "pool_id")} | {"limit": BATCH}
