"""The reconciler: every second it reclaims leases, folds counts, samples queues, and tidies up.

Of several, one works and the others stand by. Each step is its own transaction; a step that fails is logged and tried
again at its next turn, and never keeps the others from running.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dispatch.jobs.loops import DATABASE_ERRORS, RETRY_S, Pulse, Stop, reset_connection
from dispatch.services import (
    alerts,
    audit_chain,
    budget_watch,
    bulk_run,
    detection,
    notify,
    protection,
    reclaim,
    sampling,
    silences,
    singleton,
    uncovered,
    upkeep,
)

TICK_S = 1.0
BATCH = 1000

logger = logging.getLogger(__name__)

_broken: dict[str, int] = {}  # what the last check of the invariants found


@dataclass(slots=True)
class Step:
    """One step and how often it runs."""

    name: str
    every_s: float
    act: Callable[[], object]
    due: float = 0.0
    done_at: float | None = None  # monotonic time of the last run that succeeded
    took_s: float = 0.0
    late_s: float = 0.0  # how long after its time it ran


def steps() -> list[Step]:
    """All steps, in order."""
    return [
        Step("reclaim", TICK_S, _reclaim),
        Step("end pauses", TICK_S, upkeep.end_pauses),
        Step("bulk jobs", TICK_S, bulk_run.advance),
        Step("fold", TICK_S, upkeep.fold),
        Step("sample", TICK_S, sampling.sample),
        Step("roll up samples", 10 * TICK_S, sampling.roll_up),
        Step("watch for uncovered work", TICK_S, uncovered.watch),
        Step("chain the audit", TICK_S, audit_chain.advance),
        Step("watch cost budgets", 2 * TICK_S, budget_watch.watch),
        Step("end stale alerts", 5 * TICK_S, alerts.end_stale),
        Step("detect", 4 * TICK_S, detection.detect),
        Step("mute alerts", TICK_S, silences.mute),
        Step("tell of alerts", TICK_S, notify.tell),
        Step("quarantine", 5 * TICK_S, protection.quarantine),
        Step("breakers", 2 * TICK_S, protection.breakers),
        Step("drop dead demand", 5 * TICK_S, upkeep.drop_dead_demand),
        Step("close silent sessions", 30 * TICK_S, upkeep.close_silent_sessions),
        Step("prune", 30 * TICK_S, upkeep.prune),
        Step("prune samples", 30 * TICK_S, sampling.prune),
        Step("prune alerts", 300 * TICK_S, alerts.prune),
        Step("check invariants", 60 * TICK_S, _check),
    ]


def _reclaim() -> None:
    """Sweep until less than a whole batch is due, for a few seconds at most."""
    started = time.monotonic()
    while True:
        counts = reclaim.sweep(BATCH)
        if counts.total:
            logger.info("reclaimed: %s", counts, extra={"action": "reclaimed"})
        if counts.total < BATCH or time.monotonic() - started > 3 * TICK_S:
            return


def _check() -> None:
    broken = upkeep.check_invariants()
    _broken.clear()
    _broken.update(broken)
    if broken:
        logger.error("invariants are broken: %s", broken, extra={"action": "invariants_broken"})


def tick(plan: list[Step], goes_on: Callable[[], bool] = lambda: True) -> int:
    """Run the steps that are due, while `goes_on` says so before each of them; how many failed. No step raises."""
    failed = 0
    for step in plan:
        now = time.monotonic()
        if now < step.due:
            continue
        if not goes_on():
            break
        step.late_s = max(0.0, now - step.due) if step.done_at is not None else 0.0
        step.due = now + step.every_s - 0.05  # a tick that comes a little early still counts
        try:
            step.act()
            step.done_at = time.monotonic()
            step.took_s = step.done_at - now
        except Exception as error:
            failed += 1
            known = isinstance(error, DATABASE_ERRORS)
            logger.warning("%s: %s", step.name, error, exc_info=not known, extra={"action": "step_failed"})
            reset_connection()
    return failed


def watch(plan: list[Step], working: bool) -> dict[str, Any]:
    """What the reconciler tells of itself with its pulse: ages and durations in seconds, None before the first time."""
    sweep, check = (next(step for step in plan if step.name == name) for name in ("reclaim", "check invariants"))
    now = time.monotonic()
    return {
        "working": working,
        "swept_s": None if sweep.done_at is None else round(now - sweep.done_at, 3),
        "sweep_took_s": round(sweep.took_s, 3),
        "lag_s": round(sweep.late_s, 3),
        "checked_s": None if check.done_at is None else round(now - check.done_at, 3),
        "broken": dict(_broken),
    }


def run(stop: Stop) -> None:
    """Reconcile until `stop` is set; survives any outage of the database."""
    pulse, one, plan = Pulse("reconciler"), singleton.Singleton(), steps()

    def goes_on() -> bool:
        """Between steps too: a long turn looks neither hung to the sentinel nor silent to a second reconciler."""
        return not stop.is_set() and one.acquire()

    while not stop.is_set():
        started = time.monotonic()
        try:
            working = one.acquire()
            pulse.beat(watch(plan, working))
            if working:
                tick(plan, goes_on)
        except DATABASE_ERRORS as error:
            logger.warning("the database is away: %s", error, extra={"action": "database_away"})
            reset_connection()
            stop.wait(RETRY_S)
            continue
        if working:
            stop.wait(max(0.0, TICK_S - (time.monotonic() - started)))
    one.release()
    pulse.end()
    reset_connection()
