"""Finish: complete, fail and release, each fenced by the lease's token.

An accepted call may be repeated with the same token and gets the same answer. A call whose lease is gone answers
LeaseLost, and what it reported stays as evidence on the attempt. `tool_limited` failures cool the tool down for the
whole fleet. Texts that PostgreSQL cannot store are cleaned, never refused: the work is done and must not be lost.
"""

import json
from collections.abc import Sequence
from typing import Any

from dispatch.core.cleaning import clean, clean_text, cut
from dispatch.core.states import Outcome, State
from dispatch.core.types import MICRO
from dispatch.errors import EvenflowError, Invalid, LeaseLost, NotFound
from dispatch.services import ending, sessions
from dispatch.services.messages import Finish, Finished
from dispatch.store import db

ERROR_BYTES = 64 * 1024  # of an error's message and of its stack
REASON_BYTES = 1024
TOOL_WAIT_S = 60.0
MAX_WAIT_S = 30 * 86400.0  # a tool's "retry after" beyond this is cut
MAX_COST = 10**15  # micro-units

OUTCOMES = {
    "complete": frozenset({Outcome.SUCCEEDED, Outcome.CANCELLED}),
    "fail": frozenset({Outcome.FAILED, Outcome.TOOL_LIMITED, Outcome.CANCELLED}),
    "release": frozenset({Outcome.RELEASED, Outcome.PREEMPTED, Outcome.CANCELLED}),
}
Answer = Finished | EvenflowError
Pair = tuple[int, int]  # task, token


def finish_many(items: Sequence[Finish]) -> list[Answer]:
    """End a batch of leases in one transaction; per item the task's state, or LeaseLost, NotFound or Invalid."""
    answers: dict[int, Answer] = {}
    with db.atomic():
        tools = _tools(items)
        leases = _lock(items)
        chosen: dict[Pair, int] = {}
        for index, item in enumerate(items):
            facts = leases.get((item.task_id, item.token))
            problem = _problem(item, tools)
            if problem:
                answers[index] = problem
            elif facts and sessions.owns(item.caller, facts):
                chosen.setdefault((item.task_id, item.token), index)
        answers.update(_end(items, {index: leases[pair] for pair, index in chosen.items()}, tools))
        rest = [index for index in range(len(items)) if index not in answers]
        answers.update(_without_lease(items, rest))
    return [answers[index] for index in range(len(items))]


def _problem(item: Finish, tools: dict[str, int]) -> Invalid | None:
    if item.outcome not in OUTCOMES:
        return Invalid(("outcome", f"must be one of {', '.join(OUTCOMES)}"))
    if item.outcome == "fail" and not (item.error or {}).get("message"):
        return Invalid(("error.message", "is needed"))
    if item.tool is not None and item.tool not in tools:
        return Invalid(("tool", "there is no such tool"))
    return None


def _tools(items: Sequence[Finish]) -> dict[str, int]:
    slugs = sorted({item.tool for item in items if item.tool})
    return {slug: id_ for id_, slug in db.tuples("find_tools", {"slugs": slugs})} if slugs else {}


def _lock(items: Sequence[Finish]) -> dict[Pair, ending.Facts]:
    pairs = sorted({(item.task_id, item.token) for item in items if _possible(item)})
    found = ending.lock([task for task, _ in pairs], [token for _, token in pairs])
    return {(facts["task_id"], facts["token"]): facts for facts in found}


def _possible(item: Finish) -> bool:
    return 0 < item.task_id <= sessions.MAX_ID and 0 < item.token <= sessions.MAX_ID


def _end(items: Sequence[Finish], chosen: dict[int, ending.Facts], tools: dict[str, int]) -> dict[int, Answer]:
    order = sorted(chosen, key=lambda index: items[index].task_id)
    made = {index: _how(items[index]) for index in order}
    states = ending.end([chosen[index] for index in order], [made[index][0] for index in order])
    _keep_checkpoints([items[index] for index in order])
    _cool([(items[index], chosen[index]) for index in order if made[index][0].outcome is Outcome.TOOL_LIMITED], tools)
    return {
        index: Finished(state=states[items[index].task_id].word, sanitized=made[index][1])
        for index in order
        if items[index].task_id in states
    }


def _how(item: Finish) -> tuple[ending.End, bool]:
    """What the agent said, as an end, and whether its texts had to be cleaned."""
    result, dirty_result = clean(item.result)
    error, dirty_error = _error(item)
    reason = cut(clean_text(item.reason), REASON_BYTES)
    kind = (error or {}).get("kind", "transient")
    outcome = {"complete": Outcome.SUCCEEDED, "release": Outcome.RELEASED}.get(item.outcome, Outcome.FAILED)
    retry_after_s = item.retry_after_s
    if item.outcome == "fail" and kind == "tool_limited":
        outcome = Outcome.TOOL_LIMITED
        retry_after_s = _tool_wait(item)
    how = ending.End(
        outcome=outcome,
        reason=reason,
        error=error,
        result=json.dumps(result) if item.outcome == "complete" else None,
        cost=None if item.cost is None else int(min(max(item.cost, 0.0) * MICRO, MAX_COST)),
        permanent=kind == "permanent",
        retry_after_s=retry_after_s,
        by_agent=True,
    )
    return how, dirty_result or dirty_error or clean_text(item.reason) != item.reason


def _tool_wait(item: Finish) -> float:
    return min(TOOL_WAIT_S if item.retry_after_s is None else max(item.retry_after_s, 0.0), MAX_WAIT_S)


def _error(item: Finish) -> tuple[dict[str, Any] | None, bool]:
    if item.outcome != "fail" or item.error is None:
        return None, False
    error, dirty = clean(dict(item.error))
    error = {key: value for key, value in error.items() if value is not None}
    for field in ("message", "stack"):
        if field in error:
            error[field] = cut(str(error[field]), ERROR_BYTES)
    return {"kind": "transient", **error}, dirty


def _keep_checkpoints(items: Sequence[Finish]) -> None:
    kept = [item for item in items if item.outcome == "release" and item.has_checkpoint]
    for item in kept:
        db.execute("replace_checkpoint", {"task_id": item.task_id})
    if kept:
        db.execute(
            "append_journal",
            {
                "task_ids": [item.task_id for item in kept],
                "tokens": [item.token for item in kept],
                "data": [json.dumps(clean(item.checkpoint)[0]) for item in kept],
                "append": [False] * len(kept),
            },
        )


def _cool(limited: Sequence[tuple[Finish, ending.Facts]], tools: dict[str, int]) -> None:
    """Cool the named tool down, else the task's only one; with several and no name nobody can tell which it was."""
    delays: dict[int, float] = {}
    for item, facts in limited:
        tool_id = tools[item.tool] if item.tool else facts["tools"][0] if len(facts["tools"]) == 1 else None
        if tool_id is not None:
            delays[tool_id] = max(delays.get(tool_id, 0.0), _tool_wait(item))
    if delays:
        db.execute("cool_tools", {"tool_ids": list(delays), "delays": list(delays.values())})


def _without_lease(items: Sequence[Finish], rest: Sequence[int]) -> dict[int, Answer]:
    """Calls whose lease is not there (or not theirs): a repeat, a late one, or an unknown task."""
    possible = [index for index in rest if 0 < items[index].task_id <= sessions.MAX_ID]
    answers: dict[int, Answer] = {index: NotFound("There is no such task.") for index in rest}
    if not possible:
        return answers
    tokens = [items[index].token if _possible(items[index]) else 0 for index in possible]
    params = {"task_ids": [items[index].task_id for index in possible], "tokens": tokens}
    late: dict[tuple[int, Any], str] = {}
    for row in db.rows("ended_attempts", params):
        index = possible[row["n"] - 1]
        item = items[index]
        if row["id"] is None or not sessions.sees(item.caller, row):
            continue
        mine = row["attempt_id"] is not None and sessions.owns(item.caller, row)
        if mine and row["outcome"] in OUTCOMES[item.outcome] and row["state"] is not None:
            answers[index] = Finished(state=State(row["state"]).word)
            continue
        answers[index] = LeaseLost("The lease ended, or it was never this caller's.")
        if mine:
            late.setdefault((row["attempt_id"], row["ended_at"]), json.dumps(_evidence(item)))
    if late:
        kept: dict[str, Any] = {"ids": [k[0] for k in late], "ended": [k[1] for k in late], "late": [*late.values()]}
        db.execute("keep_late_results", kept)
    return answers


def _evidence(item: Finish) -> dict[str, Any]:
    error, _ = _error(item)
    said = {"outcome": item.outcome, "result": clean(item.result)[0], "error": error, "cost": item.cost}
    return {key: value for key, value in said.items() if value is not None}
