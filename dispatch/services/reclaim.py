"""Reclaim: take back leases whose agents are gone, stuck or over their time, and end waiting tasks past their deadline.

The reconciler sweeps every second. Due leases are locked with the clock looked at again, in bounded batches, leaving
out those that somebody else has in hand. A batch that fails is halved until the row that spoils it stands alone; that
one is logged and left out for a minute, so one bad row never stops the sweep. Our own outage is not the agents' death:
see core/lease.py.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import InterfaceError, OperationalError

from dispatch import events
from dispatch.core.alerting import Finding
from dispatch.core.lease import MAX_EXTENSIONS, Span, Verdict, judge_expired, judge_overdue
from dispatch.core.states import Outcome
from dispatch.core.types import MICRO
from dispatch.services import alerts, ending
from dispatch.store import db

WEB_OUTAGE = "web_outage"
SKIP_S = 60.0  # how long a row that cannot be reclaimed is left alone

logger = logging.getLogger(__name__)

MESSAGES = {
    Outcome.LOST: "The heartbeats of the agent stopped.",
    Outcome.STALLED: "The agent beat on, but made no progress.",
    Outcome.TIMED_OUT: "The task ran longer than its maximum.",
    Outcome.EXPIRED: "The deadline passed while the task ran.",
}

_skipped: dict[int, float] = {}


@dataclass(slots=True, kw_only=True)
class SweepCounts:
    """What one sweep did."""

    undelivered: int = 0
    lost: int = 0
    stalled: int = 0
    timed_out: int = 0
    expired: int = 0
    preempted: int = 0
    extended: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        """How many rows there were to do something about."""
        return sum(asdict(self).values())


def sweep(limit: int = 1000) -> SweepCounts:
    """Reclaim up to `limit` due leases and end up to `limit` waiting tasks past their deadline.

    Raises django.db.OperationalError while the database is away; every other fault is kept to its row.
    """
    counts = SweepCounts()
    due = [row[0] for row in db.tuples("due_leases", {"limit": limit, "skip": _skip()})]
    if due:
        _batch(due, counts)
    with db.atomic():
        ended = [row[0] for row in db.tuples("expire_waiting", {"limit": limit})]
        counts.expired += len(ended)
        if ended:
            db.hint(events.TASK, ended)
            db.hint(events.LIVE, "tasks")
    return counts


def _skip() -> list[int]:
    now = time.monotonic()
    for task_id in [task_id for task_id, until in _skipped.items() if until < now]:
        del _skipped[task_id]
    return sorted(_skipped)


def _batch(task_ids: Sequence[int], counts: SweepCounts) -> None:
    try:
        with db.atomic():
            done = _reclaim(task_ids)
    except (OperationalError, InterfaceError):
        raise  # the database, not a row
    except Exception:
        if len(task_ids) == 1:
            logger.exception("task %s cannot be reclaimed", task_ids[0], extra={"action": "reclaim_failed"})
            _skipped[task_ids[0]] = time.monotonic() + SKIP_S
            counts.skipped += 1
            return
        middle = len(task_ids) // 2
        _batch(task_ids[:middle], counts)
        _batch(task_ids[middle:], counts)
        return
    for outcome, number in done.items():
        setattr(counts, outcome, getattr(counts, outcome) + number)


def _reclaim(task_ids: Sequence[int]) -> dict[str, int]:
    """Lock, judge and end a batch; counts by outcome."""
    params = {"only": list(task_ids), "skip": [], "limit": len(task_ids)}
    locked = {row["task_id"]: row for row in db.rows("lock_due_leases", params)}
    web = _web_spans() if locked else []
    leases = ending.lock(list(locked))
    ends: list[ending.End] = []
    ending_leases: list[ending.Facts] = []
    extend: list[int] = []
    for facts in leases:
        outcome = _cause(locked[facts["task_id"]], facts, web)
        if outcome is None:
            extend.append(facts["task_id"])
            continue
        ending_leases.append(facts)
        ends.append(ending.End(outcome=outcome, reason=outcome.word, error=_error(outcome)))
    ghosts = [f["task_id"] for f, how in zip(ending_leases, ends, strict=True) if how.outcome is Outcome.UNDELIVERED]
    if ghosts:
        db.execute("drop_ghost_demand", {"task_ids": ghosts})
    if extend:
        db.execute("extend_leases", {"task_ids": extend})
    for facts, how in zip(ending_leases, ends, strict=True):
        told = {"action": "lease_ended", "task_id": facts["task_id"], "token": facts["token"]}
        logger.debug("the lease of task %s ends: %s", facts["task_id"], how.outcome.word, extra=told)
    _alert_outage([locked[f["task_id"]] for f in ending_leases])
    ending.end(ending_leases, ends)
    counts: dict[str, int] = {"extended": len(extend)}
    for how in ends:
        counts[how.outcome.word] = counts.get(how.outcome.word, 0) + 1
    return counts


def _cause(due: dict[str, Any], facts: ending.Facts, web: Sequence[Span]) -> Outcome | None:
    """Why the lease ends; None: it is extended, because nobody was there to hear its agent."""
    if not due["delivered"]:
        return Outcome.UNDELIVERED
    if due["expired"] and not due["overtime"]:
        verdict = judge_expired(renewed_at=due["renewed_at"], ttl=due["ttl"], extensions=due["extensions"], web=web)
    else:
        verdict = judge_overdue(renewed_at=due["renewed_at"], now=due["now"], extensions=due["extensions"], web=web)
    if verdict is Verdict.EXTEND:
        return None
    if due["overtime"]:
        return Outcome.EXPIRED if facts["expired"] else Outcome.TIMED_OUT
    if due["expired"]:
        return Outcome.LOST
    return Outcome.STALLED if due["stalled"] else Outcome.PREEMPTED


def _web_spans() -> list[Span]:
    return [
        (round(up_since.timestamp() * MICRO), round(up_to.timestamp() * MICRO))
        for up_since, up_to in db.tuples("web_spans")
    ]


def _error(outcome: Outcome) -> dict[str, str] | None:
    message = MESSAGES.get(outcome)
    return None if message is None else {"message": message, "kind": outcome.word}


def _alert_outage(ended: Sequence[dict[str, Any]]) -> None:
    text = f"Leases were extended {MAX_EXTENSIONS} times because no web process was up; now they end."
    out = sorted({row["pool_id"] for row in ended if row["extensions"] >= MAX_EXTENSIONS})
    alerts.raise_all(
        [
            Finding(
                rule=WEB_OUTAGE,
                subject=f"pool:{pool}",
                severity="critical",
                text=text,
                evidence={"pool_id": pool},
                pool_id=pool,
            )
            for pool in out
        ]
    )
