"""The agents' verbs as ninja routes: the reference of the hot plane, and its stand-in with EVENFLOW_HOT=0.

Reading the fleet is here too: ninja serves one address from one router.
"""

import time
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers, connection, webpulse, wire
from dispatch.api import schemas_agents as agents
from dispatch.api import schemas_policy as policy
from dispatch.api.app import caller, raised, verb
from dispatch.api.routes_tasks import page
from dispatch.errors import EvenflowError, Unavailable
from dispatch.services import checkpoint, finish, heartbeat, workers
from dispatch.services import claim as claims
from dispatch.services.messages import ClaimAnswer

POLL_S = 0.25  # between two looks of a parked claim; the hot plane is woken instead

router = Router(tags=["agents"])


@verb(router, "POST", "/workers", "register", answer=answers.Registered, status=201)
def register(request: HttpRequest, body: agents.WorkerIn) -> dict[str, Any]:
    """Open a session for a worker."""
    return wire.registered(workers.register(caller(request), wire.worker_spec(body)))


@verb(router, "GET", "/workers", "list_workers", answer=answers.Items)
def list_workers(request: HttpRequest, query: Query[policy.WorkersQuery]) -> dict[str, Any]:
    """The fleet."""
    return page(workers.list_workers(caller(request), query.pool, query.limit, query.cursor))


@verb(router, "DELETE", "/sessions/{int:session_id}", "goodbye", answer=None, status=204)
def goodbye(request: HttpRequest, session_id: int) -> None:
    """End a session: its leases are released at once, no attempt is counted."""
    workers.goodbye(caller(request), session_id)


@verb(router, "POST", "/claims", "claim", answer=answers.Claimed, replays=False)
def claim(request: HttpRequest, body: agents.ClaimIn) -> dict[str, Any]:
    """Wait for work: answers as soon as at least one lease is there, or empty after `wait_s`."""
    return wire.claimed(_wait_for_leases(request, body))


@verb(router, "POST", "/heartbeats", "heartbeat", answer=answers.HeartbeatAnswer, replays=False)
def beat(request: HttpRequest, body: agents.HeartbeatIn) -> dict[str, Any]:
    """Renew leases, report progress, hear directives."""
    asked, cleaned = wire.heartbeat_request(caller(request), body)
    return wire.heartbeat(raised(heartbeat.heartbeat_many([asked])[0]), cleaned)


@verb(router, "POST", "/tasks/{int:task_id}/complete", "complete", answer=answers.Ended, replays=False)
def complete(request: HttpRequest, task_id: int, body: agents.CompleteIn) -> dict[str, Any]:
    """The task is done."""
    return _end(request, task_id, "complete", body)


@verb(router, "POST", "/tasks/{int:task_id}/fail", "fail", answer=answers.Ended, replays=False)
def fail(request: HttpRequest, task_id: int, body: agents.FailIn) -> dict[str, Any]:
    """The attempt failed."""
    return _end(request, task_id, "fail", body)


@verb(router, "POST", "/tasks/{int:task_id}/release", "release", answer=answers.Ended, replays=False)
def release(request: HttpRequest, task_id: int, body: agents.ReleaseIn) -> dict[str, Any]:
    """Give the task back, uncounted."""
    return _end(request, task_id, "release", body)


@verb(router, "POST", "/tasks/{int:task_id}/checkpoint", "checkpoint", answer=answers.Kept)
def keep(request: HttpRequest, task_id: int, body: agents.CheckpointIn) -> dict[str, Any]:
    """Leave a checkpoint for the next attempt."""
    return wire.ended(checkpoint.checkpoint(caller(request), task_id, body.token, body.checkpoint, append=body.append))


@verb(router, "POST", "/completions", "complete_many", answer=answers.CompletionsAnswer, replays=False)
def completions(request: HttpRequest, body: agents.CompletionsIn) -> dict[str, Any]:
    """Many outcomes in one call; each stands for itself."""
    who = caller(request)
    given = wire.ends(who, body)
    results = iter(finish.finish_many([end.finish for end in given if end.finish]))
    outcomes = [wire.outcome(end, next(results) if end.finish else None) for end in given]
    return {"outcomes": outcomes, **_claim_beside(request, body.claim)}


def _end(request: HttpRequest, task_id: int, outcome: str, body: Any) -> dict[str, Any]:
    given = wire.end(caller(request), task_id, outcome, body)
    assert given.finish is not None
    result = raised(finish.finish_many([given.finish])[0])
    return {**wire.ended(result), **_claim_beside(request, body.claim)}


def _claim_beside(request: HttpRequest, body: agents.ClaimIn | None) -> dict[str, Any]:
    """The claim that came with an outcome; the outcome is committed, so a refusal of the claim is only a warning."""
    if body is None:
        return {}
    try:
        return wire.claimed(_wait_for_leases(request, body))
    except EvenflowError as error:
        return wire.refused_claim(error)


def _wait_for_leases(request: HttpRequest, body: agents.ClaimIn) -> ClaimAnswer:
    """Claim until there are leases, the wait is over, or the client has hung up (then nothing stays with it)."""
    who = caller(request)
    until = time.monotonic() + body.wait_s
    demand: int | None = None
    try:
        while True:
            left = max(0.0, until - time.monotonic())
            asked = wire.claim_request(who, body, wait_s=left, process_id=webpulse.current.id, demand_id=demand)
            answer: ClaimAnswer = raised(claims.claim_many([asked])[0])
            demand = None if answer.leases else answer.demand_id  # delivering takes the row back
            if connection.is_gone(request):
                finish.finish_many(wire.given_back(who, answer))
                raise Unavailable("The client hung up, or the server is stopping.")
            if answer.leases:
                return answer
            if left <= 0:
                break
            time.sleep(min(POLL_S, left))
    finally:
        if demand is not None:
            claims.unpark([demand])
    reason, directive = claims.idle_reason(body.session_id)
    return ClaimAnswer(leases=[], idle_reason=reason, worker_directive=directive)
