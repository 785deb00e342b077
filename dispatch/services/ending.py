"""How any lease ends: the one place where an attempt's outcome becomes the task's next state.

Used by finish (the agent says so), goodbye (its session ends) and reclaim (nobody says anything any more). Callers
lock leases in key order first, get `Facts` from `lock`, then hand one `End` for each to `end`; all in one transaction.
After a requested cancel every end is a cancellation.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dispatch import events
from dispatch.core import retry
from dispatch.core.alerting import Finding
from dispatch.core.fingerprint import fingerprint
from dispatch.core.states import COUNTED, FINAL, HANDBACKS, LOSSES, Outcome, State
from dispatch.core.types import MICRO
from dispatch.services import alerts
from dispatch.store import db

Facts = dict[str, Any]  # one row of the statement lock_ending


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end. `cost` in micro-units; None: the slot-seconds since delivery, in pools of another unit what the agent
    reported last, else the charge. `result` is JSON text."""

    outcome: Outcome
    reason: str = ""
    error: Mapping[str, Any] | None = None
    result: str | None = None
    cost: int | None = None
    permanent: bool = False
    retry_after_s: float | None = None
    by_agent: bool = False


def lock(task_ids: Sequence[int], tokens: Sequence[int] | None = None) -> list[Facts]:
    """Lock leases (with `tokens`: delivered ones under these) and their tasks: what decides about their end."""
    given = {"task_ids": list(task_ids), "tokens": [None] * len(task_ids) if tokens is None else list(tokens)}
    return db.rows("lock_ending", given) if task_ids else []


def lock_session(session_id: int) -> list[Facts]:
    """The same for everything a session holds."""
    return lock([row[0] for row in db.tuples("lock_leases_of_session", {"session_id": session_id})])


def end(leases: Sequence[Facts], ends: Sequence[End]) -> dict[int, State]:
    """End locked leases: the new state of each task, by id."""
    if not leases:
        return {}
    told = [_as_asked(facts, how) for facts, how in zip(leases, ends, strict=True)]
    decided = [(facts, how, _decide(facts, how)) for facts, how in zip(leases, told, strict=True)]
    moved = {row[0] for row in db.tuples("end_leases", _columns(decided))}
    states = {facts["task_id"]: after.state for facts, _, after in decided if facts["task_id"] in moved}
    alerts.raise_all([_held(facts) for facts, _, after in decided if after.state is State.HELD])
    _hint(leases, states)
    return states


def _as_asked(facts: Facts, how: End) -> End:
    """A release after the request to yield is what was asked for: a preemption."""
    asked = how.outcome is Outcome.RELEASED and facts["asked_to_yield"]
    return replace(how, outcome=Outcome.PREEMPTED) if asked else how


def _outcome(facts: Facts, how: End) -> Outcome:
    """An agent's end after a requested cancel is recorded as what it is: a cancellation."""
    return Outcome.CANCELLED if how.by_agent and facts["cancel_requested"] else how.outcome


def _counted(facts: Facts, how: End) -> bool:
    return how.outcome in COUNTED and not facts["cancel_requested"]


def _decide(facts: Facts, how: End) -> retry.Decision:
    attempts = facts["attempts"] + _counted(facts, how)
    return retry.after(
        how.outcome,
        attempts,
        facts["losses"] + (how.outcome in LOSSES),
        facts["handbacks"] + (how.outcome in HANDBACKS),
        retry.Limits(
            max_attempts=facts["max_attempts"],
            max_reclaims=facts["max_reclaims"],
            max_handbacks=facts["max_handbacks"],
            backoff=round(facts["backoff_s"] * MICRO),
            backoff_max=round(facts["backoff_max_s"] * MICRO),
        ),
        now=0,  # the database adds the delay to its own clock
        jitter=zlib.crc32(f"{facts['task_id']}/{attempts}".encode()) % MICRO,
        permanent=how.permanent,
        retry_after=None if how.retry_after_s is None else round(how.retry_after_s * MICRO),
        cancel_requested=facts["cancel_requested"],
    )


def _columns(decided: Sequence[tuple[Facts, End, retry.Decision]]) -> dict[str, list[Any]]:
    keep = [not facts["cancel_requested"] for facts, _, _ in decided]
    return {
        "task_ids": [facts["task_id"] for facts, _, _ in decided],
        "tokens": [facts["token"] for facts, _, _ in decided],
        "states": [int(after.state) for _, _, after in decided],
        "outcomes": [int(_outcome(facts, how)) for facts, how, _ in decided],
        "counted": [_counted(facts, how) for facts, how, _ in decided],
        "lost": [how.outcome in LOSSES and kept for (_, how, _), kept in zip(decided, keep, strict=True)],
        "handback": [how.outcome in HANDBACKS and kept for (_, how, _), kept in zip(decided, keep, strict=True)],
        "delays": [(after.not_before or 0) / MICRO for _, _, after in decided],
        "reasons": [_reason(how, after) for _, how, after in decided],
        "errors": [None if how.error is None else json.dumps(how.error) for _, how, _ in decided],
        "results": [how.result for _, how, _ in decided],
        "costs": [_cost(facts, how) for facts, how, _ in decided],
        "fingerprints": [_fingerprint(how) for _, how, _ in decided],
    }


def _reason(how: End, after: retry.Decision) -> str:
    """The code of the decision where the task stops; else the agent's own word, if it said one."""
    return after.reason if after.state in FINAL or after.state is State.HELD else how.reason or after.reason


def _cost(facts: Facts, how: End) -> int:
    return int(how.cost if how.cost is not None else max(0, facts["spent"]))


def _fingerprint(how: End) -> str | None:
    if how.error is not None:
        return fingerprint(how.error)
    return fingerprint({"type": how.outcome.word}) if how.outcome in COUNTED else None


def _held(facts: Facts) -> Finding:
    return Finding(
        rule="max_handbacks",
        subject=f"task:{facts['task_id']}",
        severity="warning",
        text=f"Task {facts['task_id']} was handed back {facts['handbacks'] + 1} times and is held.",
        evidence={"task_id": facts["task_id"], "handbacks": facts["handbacks"] + 1},
        pool_id=facts["pool_id"],
        tenant_id=facts["tenant_id"],
    )


def _hint(leases: Sequence[Facts], states: Mapping[int, State]) -> None:
    final = [task_id for task_id, state in states.items() if state in FINAL]
    db.hints({events.TASK: final, events.POOL: {facts["pool_id"] for facts in leases}, events.LIVE: "tasks"})
