"""Between the agents' schemas and the services' messages, both ways: the same functions for ninja and the hot plane.

Texts that agents report (notes, errors, reasons, results) never make a call fail for their content: the services clean
them, the answer says `sanitized: true`.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from dispatch.api import schemas_agents as agents
from dispatch.api.fields import NUL
from dispatch.api.validation import findings
from dispatch.errors import EvenflowError, Invalid, LeaseLost, TooLarge
from dispatch.services import messages as m

CLIENT_GONE = "the client hung up before it got the lease"

BODIES: dict[str, type[agents.CompleteIn] | type[agents.FailIn] | type[agents.ReleaseIn]] = {
    "complete": agents.CompleteIn,
    "fail": agents.FailIn,
    "release": agents.ReleaseIn,
}


# Requests


def worker_spec(body: agents.WorkerIn) -> m.WorkerSpec:
    """A registration as the service takes it."""
    return m.WorkerSpec(
        name=body.name,
        pool=body.pool,
        capabilities=tuple(sorted(set(body.capabilities))),
        slots=body.slots,
        weight=body.weight,
        version=body.version or "",
        labels=body.labels or {},
    )


def claim_request(
    caller: m.Caller,
    body: agents.ClaimIn,
    *,
    wait_s: float,
    process_id: int | None = None,
    demand_id: int | None = None,
) -> m.ClaimRequest:
    """A claim that parks for `wait_s` seconds when nothing is there (0: it does not park).

    `demand_id` is the parked row that an earlier round of the same call left.
    """
    return m.ClaimRequest(
        caller=caller,
        session_id=body.session_id,
        max=body.max,
        wait_s=wait_s,
        claim_id=body.claim_id,
        park=wait_s > 0,
        process_id=process_id,
        demand_id=demand_id,
    )


def heartbeat_request(caller: m.Caller, body: agents.HeartbeatIn) -> tuple[m.HeartbeatRequest, set[int]]:
    """A heartbeat as the service takes it, and the tasks whose notes had to be cleaned."""
    beats, cleaned = [], set()
    for beat in body.leases:
        progress = beat.progress
        report = None if progress is None else m.Progress(**dict(progress))
        if report is not None and report.note and (note := report.note.replace(NUL, "\ufffd")) != report.note:
            report = replace(report, note=note)
            cleaned.add(beat.task_id)
        beats.append(m.Beat(task_id=beat.task_id, token=beat.token, progress=report))
    return m.HeartbeatRequest(caller=caller, session_id=body.session_id, beats=tuple(beats)), cleaned


@dataclass(frozen=True, slots=True)
class End:
    """One end of a lease on its way to the service: what to write, or why it cannot be used."""

    task_id: int
    finish: m.Finish | None
    errors: list[dict[str, str]] = field(default_factory=list)


def end(caller: m.Caller, task_id: int, outcome: str, body: Any) -> End:
    """An outcome as the service takes it; `body` is an instance of BODIES[outcome]."""
    extra: dict[str, Any] = {}
    if outcome == "complete":
        extra = {"result": body.result, "cost": body.cost}
    elif outcome == "fail":
        error = body.error.model_dump(exclude_none=True)
        extra = {"error": error, "retry_after_s": body.retry_after_s, "tool": body.tool, "cost": body.cost}
    else:
        extra = {
            "reason": body.reason or "",
            "checkpoint": body.checkpoint,
            "has_checkpoint": "checkpoint" in body.model_fields_set,
        }
    return End(task_id, m.Finish(caller=caller, task_id=task_id, token=body.token, outcome=outcome, **extra))


def given_back(caller: m.Caller, answer: m.ClaimAnswer) -> list[m.Finish]:
    """Leases that were delivered while the client hung up go back at once, uncounted."""
    return [
        m.Finish(caller=caller, task_id=lease.task_id, token=lease.token, outcome="release", reason=CLIENT_GONE)
        for lease in answer.leases
    ]


def ends(caller: m.Caller, body: agents.CompletionsIn) -> list[End]:
    """The outcomes of a batch, each for itself; an entry without a task's id cannot be answered, so it is `Invalid`."""
    nameless = [
        (f"outcomes[{index}].task_id", "an integer is needed")
        for index, entry in enumerate(body.outcomes)
        if type(entry.get("task_id")) is not int
    ]
    if nameless:
        raise Invalid(*nameless)
    return [_entry(caller, dict(entry)) for entry in body.outcomes]


def _entry(caller: m.Caller, entry: dict[str, Any]) -> End:
    task_id = entry.pop("task_id")
    outcome = entry.pop("outcome", None)
    schema = BODIES.get(outcome) if isinstance(outcome, str) else None
    if schema is None:
        return _unusable(task_id, ("outcome", "must be complete, fail or release"))
    if "claim" in entry:
        return _unusable(task_id, ("claim", "belongs beside the outcomes, not into one"))
    try:
        return end(caller, task_id, outcome, schema.model_validate(entry))
    except ValidationError as error:
        return _unusable(task_id, *findings(error.errors(include_url=False, include_input=False)))
    except TooLarge as error:
        return _unusable(task_id, ("body", error.detail))


def _unusable(task_id: int, *faults: tuple[str, str]) -> End:
    return End(task_id, None, errors=[{"field": name, "message": message} for name, message in faults])


# Answers


def registered(answer: m.Registered) -> dict[str, Any]:
    """The answer to a registration."""
    return {
        "worker_id": answer.worker_id,
        "session_id": answer.session_id,
        "lease_ttl_s": answer.lease_ttl_s,
        "heartbeat_every_s": answer.heartbeat_every_s,
        "offer_ttl_s": answer.offer_ttl_s,
    }


def lease(given: m.DeliveredLease) -> dict[str, Any]:
    """One lease of a claim's answer."""
    return {
        "task_id": given.task_id,
        "token": given.token,
        "attempt": given.attempt,
        "type": given.type,
        "payload": given.payload,
        "class": given.work_class,
        "tenant": given.tenant,
        "user": given.user,
        "cost": given.cost,
        "priority": given.priority,
        "expires_at": given.expires_at,
        "ttl_s": given.ttl_s,
        "heartbeat_every_s": given.heartbeat_every_s,
        "progress_timeout_s": given.progress_timeout_s,
        "max_runtime_s": given.max_runtime_s,
        "deadline": given.deadline,
        "checkpoint": given.checkpoint,
        "journal": given.journal,
    }


def claimed(answer: m.ClaimAnswer) -> dict[str, Any]:
    """The answer to a claim."""
    return {
        "leases": [lease(given) for given in answer.leases],
        "idle_reason": answer.idle_reason,
        "worker_directive": answer.worker_directive,
    }


def heartbeat(answer: m.HeartbeatAnswer, cleaned: set[int]) -> dict[str, Any]:
    """The answer to a heartbeat."""
    leases: list[dict[str, Any]] = []
    for beat in answer.leases:
        shown = {
            "task_id": beat.task_id,
            "status": beat.status,
            "expires_at": beat.expires_at,
            "directive": beat.directive,
        }
        leases.append({**shown, "sanitized": True} if beat.task_id in cleaned else shown)
    return {
        "leases": leases,
        "worker_directive": answer.worker_directive,
        "heartbeat_every_s": answer.heartbeat_every_s,
    }


def ended(result: m.Finished) -> dict[str, Any]:
    """The answer to one end of a lease."""
    return {"state": result.state, "sanitized": True} if result.sanitized else {"state": result.state}


def outcome(given: End, result: m.Finished | EvenflowError | None) -> dict[str, Any]:
    """One entry of the answer to a batch of outcomes; `result` None: it was never tried."""
    if isinstance(result, m.Finished):
        return {"task_id": given.task_id, "status": "accepted", **ended(result)}
    if isinstance(result, LeaseLost):
        return {"task_id": given.task_id, "status": "lost", "state": result.extra.get("state")}
    faults = given.errors or [{"field": "task_id", "message": result.detail if result else "not usable"}]
    return {"task_id": given.task_id, "status": "invalid", "state": None, "errors": faults}


def refused_claim(error: EvenflowError) -> dict[str, Any]:
    """What stands for the leases when the outcome is committed and the claim beside it is refused."""
    return {
        "leases": [],
        "idle_reason": None,
        "worker_directive": "continue",
        "warnings": [{"field": "claim", "message": error.detail}],
    }
