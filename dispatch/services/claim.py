"""Claim: hand a session the leases that the dispatcher offered it, or park the claim until there are some.

A claim never chooses tasks. It delivers what was offered (the TTL starts, the task counts a start) or, with none,
leaves a demand row for `wait_s` and lets the dispatcher know; whoever holds the connection calls again (with
`demand_id`) when the session is named in a notification, and takes the row back by `unpark` in the end.
`wait_s` 0 parks nothing: it answers what has been offered already. A repeated `claim_id` answers the leases it got
before, as long as they live. One answer holds at most ANSWER_BYTES of payloads; the rest comes with the next claim.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from dispatch import events
from dispatch.core.types import MICRO
from dispatch.errors import EvenflowError, NotFound
from dispatch.services import sessions
from dispatch.services.messages import ClaimAnswer, ClaimRequest, DeliveredLease
from dispatch.store import db

ANSWER_BYTES = 15 * 2**20  # of the contract's 16 MiB; the rest is for the envelopes
ENVELOPE_BYTES = 1024

REMEMBERED = 100_000  # sessions
REMEMBER_S = 5.0

Key = tuple[int, str | None]
_delivered: dict[int, tuple[int, float]] = {}  # session → newest token that this process delivered, good until when
Session = dict[str, Any]  # one row of the statement claiming_sessions


def claim_many(requests: Sequence[ClaimRequest]) -> list[ClaimAnswer | EvenflowError]:
    """Answer a batch of claims in one transaction; per claim its leases, a parked demand row, or an error."""
    answers: list[ClaimAnswer | EvenflowError | None] = [None] * len(requests)
    with db.atomic():
        opened = _find(requests)
        open_claims: list[int] = []
        for index, request in enumerate(requests):
            answers[index] = sessions.refusal(request.caller, opened.get(request.session_id))
            if answers[index] is None:
                open_claims.append(index)
        sessions.touch(opened[requests[index].session_id] for index in open_claims)
        leases = _take([requests[index] for index in open_claims], opened)
        for index, found in zip(open_claims, leases, strict=True):
            directive = _directive(opened[requests[index].session_id])
            answers[index] = ClaimAnswer(leases=found, demand_id=requests[index].demand_id, worker_directive=directive)
        _park(requests, opened, answers)
    _remember(requests, answers)
    return [answer if answer is not None else NotFound() for answer in answers]


def _remember(requests: Sequence[ClaimRequest], answers: Sequence[ClaimAnswer | EvenflowError | None]) -> None:
    """Keep the newest delivered token of each session: a hint for the next claim, good once it is committed. Offers are
    granted in the order of their tokens and delivered oldest first, so what is still undelivered is newer. Believed for
    REMEMBER_S only: a database that was restored under a running process begins with older tokens."""
    until = time.monotonic() + REMEMBER_S
    if len(_delivered) > REMEMBERED:
        _delivered.clear()
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, ClaimAnswer) and answer.leases:
            newest = max(lease.token for lease in answer.leases)
            _delivered[request.session_id] = (newest, until)


def _find(requests: Sequence[ClaimRequest]) -> dict[int, Session]:
    """The open sessions behind the claims, with their offers."""
    ids = sessions.known(request.session_id for request in requests)
    now = time.monotonic()
    after = [newest if until > now else 0 for newest, until in (_delivered.get(id_, (0, 0.0)) for id_ in ids)]
    found = db.rows("claiming_sessions", {"session_ids": ids, "after": after}) if ids else []
    return {row["id"]: row for row in found}


def _directive(session: Session) -> str:
    return "drain" if session["draining"] else "continue"


def _take(requests: Sequence[ClaimRequest], opened: dict[int, Session]) -> list[list[DeliveredLease]]:
    """Leases for each claim: the ones of the same claim_id, else fresh ones."""
    if not requests:
        return []
    given: dict[Key, list[int]] = defaultdict(list)
    for task_id, session_id, claim_id in _replayed(requests):
        given[session_id, claim_id].append(task_id)
    repeated = (
        db.rows("lease_answers", {"task_ids": [task for tasks in given.values() for task in tasks]}) if given else []
    )
    fresh = [
        (index, request)
        for index, request in enumerate(requests)
        if (request.session_id, request.claim_id) not in given
    ]
    shares = _share_out(fresh, opened)
    answers = _answers(repeated + _deliver(shares, requests))
    taken: list[list[DeliveredLease]] = []
    for index, request in enumerate(requests):
        key = (request.session_id, request.claim_id)
        if index in shares and request.claim_id is not None:
            given[key] = shares[index]  # a double in this batch gets the same
        tasks = shares.get(index) or (given.get(key, []) if request.claim_id is not None else [])
        taken.append([answers[task] for task in tasks if task in answers])
    unpark(
        d for n, (r, t) in enumerate(zip(requests, taken, strict=True)) if t and n not in shares and (d := r.demand_id)
    )
    return taken


def _replayed(requests: Sequence[ClaimRequest]) -> list[tuple[Any, ...]]:
    keys = sorted({(request.session_id, request.claim_id) for request in requests if request.claim_id is not None})
    if not keys:
        return []
    return db.tuples("claimed_leases", {"session_ids": [k[0] for k in keys], "claim_ids": [k[1] for k in keys]})


def _share_out(fresh: Sequence[tuple[int, ClaimRequest]], opened: dict[int, Session]) -> dict[int, list[int]]:
    """Share the sessions' offers out among their claims: claim index → task ids."""
    offers = {
        request.session_id: list(zip(session["tasks"] or (), session["bytes"] or (), strict=True))
        for _, request in fresh
        if (session := opened[request.session_id])
    }
    shares: dict[int, list[int]] = {}
    seen: set[Key] = set()
    for index, request in fresh:
        key = (request.session_id, request.claim_id)
        if request.claim_id is not None and key in seen:
            continue
        seen.add(key)
        tasks = _share(offers[request.session_id], request.max)
        if tasks:
            shares[index] = tasks
    return shares


def _deliver(shares: dict[int, list[int]], requests: Sequence[ClaimRequest]) -> list[dict[str, Any]]:
    """Mark what was shared out as delivered, where it is still there; the rows of the answers."""
    if not shares:
        return []
    pairs = sorted((task, index) for index, tasks in shares.items() for task in tasks)
    return db.rows(
        "deliver_leases",
        {
            "task_ids": [task for task, _ in pairs],
            "session_ids": [requests[index].session_id for _, index in pairs],
            "claim_ids": [requests[index].claim_id for _, index in pairs],
            "demand_ids": [demand for index in shares if (demand := requests[index].demand_id) is not None],
        },
    )


def _share(offers: list[tuple[Any, ...]], most: int) -> list[int]:
    """Take up to `most` offers (oldest last in the list) within the size of one answer; at least one."""
    tasks: list[int] = []
    size = 0
    while offers and len(tasks) < most:
        size += offers[-1][1] + ENVELOPE_BYTES
        if tasks and size > ANSWER_BYTES:
            break
        tasks.append(offers.pop()[0])
    return tasks


def _answers(rows: Sequence[dict[str, Any]]) -> dict[int, DeliveredLease]:
    journals: dict[int, list[Any]] = defaultdict(list)
    checkpoints: dict[int, Any] = {}
    again = [row["task_id"] for row in rows if row["attempt"] > 1]
    for task_id, append, data in db.tuples("read_journals", {"task_ids": again}) if again else []:
        if append:
            journals[task_id].append(data)
        else:
            checkpoints[task_id] = data
    return {
        row["task_id"]: DeliveredLease(
            task_id=row["task_id"],
            token=row["token"],
            attempt=row["attempt"],
            type=row["type"],
            payload=row["payload"],
            work_class=row["work_class"],
            tenant=row["tenant"],
            user=row["user"],
            cost=row["charged"] / MICRO,
            priority=row["priority"],
            expires_at=row["expires_at"],
            ttl_s=row["lease_ttl_s"],
            heartbeat_every_s=sessions.heartbeat_every_s(row["session_id"], row["pool_id"], row),
            progress_timeout_s=row["progress_timeout_s"],
            max_runtime_s=row["max_runtime_s"],
            deadline=row["deadline"],
            checkpoint=checkpoints.get(row["task_id"]),
            journal=journals[row["task_id"]],
        )
        for row in rows
    }


def _park(
    requests: Sequence[ClaimRequest],
    opened: dict[int, Session],
    answers: list[ClaimAnswer | EvenflowError | None],
) -> None:
    """Leave a demand row for those that wait."""
    waiting = [
        index
        for index, answer in enumerate(answers)
        if isinstance(answer, ClaimAnswer) and not answer.leases and requests[index].park and requests[index].wait_s > 0
    ]
    held = [demand for index in waiting if (demand := requests[index].demand_id) is not None]
    alive = {row[0] for row in db.tuples("live_demand", {"demand_ids": held})} if held else set()
    waiting = [index for index in waiting if requests[index].demand_id not in alive]
    if not waiting:
        return
    held_sessions = [opened[requests[index].session_id] for index in waiting]
    params = {
        "session_ids": [session["id"] for session in held_sessions],
        "pool_ids": [session["pool_id"] for session in held_sessions],
        "wanted": [
            min(requests[index].max, session["slots"]) for index, session in zip(waiting, held_sessions, strict=True)
        ],
        "waits": [float(requests[index].wait_s) for index in waiting],
        "process_ids": [requests[index].process_id for index in waiting],
        "channel": events.POOL,
    }
    for index, (demand_id,) in zip(waiting, db.tuples("park_demand", params), strict=True):
        directive = _directive(opened[requests[index].session_id])
        answers[index] = ClaimAnswer(leases=[], demand_id=demand_id, worker_directive=directive)


def offered(session_ids: Iterable[int]) -> list[int]:
    """Which of these sessions have offers waiting: for the poll behind the notifications."""
    ids = sessions.known(session_ids)
    return [row[0] for row in db.tuples("offered_sessions", {"session_ids": ids})] if ids else []


def unpark(demand_ids: Iterable[int]) -> None:
    """Take parked claims back: answered, waited out or disconnected."""
    ids = sessions.known(demand_ids)
    if ids:
        db.execute("drop_demand", {"demand_ids": ids})


def idle_reason(session_id: int) -> tuple[str, str]:
    """Why a claim of this session stayed empty, and its worker's directive (contract.md, Agents)."""
    facts = db.one("idle_facts", {"session_id": session_id})
    if facts is None:
        return "no_work", "continue"
    directive = _directive(facts)
    checks = [
        ("draining", facts["draining"]),
        ("paused", facts["paused"]),
        ("no_free_slot", facts["leases"] >= facts["slots"]),
        ("no_work", not facts["any_work"]),
        ("no_eligible_work", not facts["eligible"]),
        ("paused", not facts["unpaused"]),
    ]
    return next((reason for reason, holds in checks if holds), "limits"), directive
