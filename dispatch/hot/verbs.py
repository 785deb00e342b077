"""The agents' verbs on the hot plane: check the body with the API's schema, await the batch, shape the answer.

Each handler takes (engine, call) and returns the value to pack. The table ROUTES is all that the hot plane serves.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from dispatch.api import idempotent, problems, submitting, wire
from dispatch.api import schemas_agents as agents
from dispatch.api.schemas_tasks import SubmitIn
from dispatch.api.validation import validate
from dispatch.errors import EvenflowError
from dispatch.hot.engine import Client, Engine
from dispatch.services import checkpoint, workers
from dispatch.services import messages as m
from dispatch.services.idempotency import Asked


@dataclass(slots=True, kw_only=True)
class Call:
    """One authenticated request with its parsed body."""

    caller: m.Caller
    path: str
    id: int
    raw: bytes
    body: Any
    key: str | None
    client: Client


class Verb(NamedTuple):
    """A handler, the schema of its body (None: it has none) and the status of its success."""

    handle: Callable[[Engine, Call], Awaitable[problems.Answer]]
    schema: Any
    status: int


def _once(call: Call, status: int, make: Callable[[], Any]) -> Callable[[], problems.Answer]:
    """The work of a call that honours the Idempotency-Key, as a job for a thread."""
    work = lambda: problems.answer(status, make())  # noqa: E731  # a name for a thunk
    if call.key is None:
        return work
    return partial(idempotent.once, call.caller, call.path, call.key, call.raw, work)


async def register(engine: Engine, call: Call) -> problems.Answer:
    """Open a session."""
    spec = wire.worker_spec(call.body)
    work = _once(call, 201, lambda: wire.registered(workers.register(call.caller, spec)))
    made: problems.Answer = await engine.job(work)
    return made


async def goodbye(engine: Engine, call: Call) -> problems.Answer:
    """End a session."""
    await engine.job(lambda: workers.goodbye(call.caller, call.id))
    return problems.answer(204, None)


async def claim(engine: Engine, call: Call) -> problems.Answer:
    """Wait for work."""
    return problems.answer(200, wire.claimed(await engine.wait_for_leases(call.caller, call.body, call.client)))


async def heartbeat(engine: Engine, call: Call) -> problems.Answer:
    """Renew leases."""
    asked, cleaned = wire.heartbeat_request(call.caller, call.body)
    return problems.answer(200, wire.heartbeat(await engine.heartbeat(asked), cleaned))


async def end(engine: Engine, call: Call, *, outcome: str) -> problems.Answer:
    """Complete, fail or release one task."""
    given = wire.end(call.caller, call.id, outcome, call.body)
    assert given.finish is not None
    result = await engine.finish(given.finish)
    return problems.answer(200, {**wire.ended(result), **await _claim_beside(engine, call)})


async def keep(engine: Engine, call: Call) -> problems.Answer:
    """Leave a checkpoint for the next attempt."""
    body = call.body
    work = _once(
        call,
        200,
        lambda: wire.ended(
            checkpoint.checkpoint(call.caller, call.id, body.token, body.checkpoint, append=body.append)
        ),
    )
    made: problems.Answer = await engine.job(work)
    return made


async def completions(engine: Engine, call: Call) -> problems.Answer:
    """Many outcomes, each for itself."""
    given = wire.ends(call.caller, call.body)
    finishing = [engine.finish(end.finish) for end in given if end.finish]
    results = iter(await asyncio.gather(*finishing, return_exceptions=True))
    outcomes = []
    for one in given:
        result = next(results) if one.finish else None
        if isinstance(result, BaseException) and not isinstance(result, EvenflowError):
            raise result
        outcomes.append(wire.outcome(one, result))
    return problems.answer(200, {"outcomes": outcomes, **await _claim_beside(engine, call)})


async def submit(engine: Engine, call: Call) -> problems.Answer:
    """Put in one task or many."""
    asked = None
    if call.key is not None:
        idempotent.check(call.key)
        asked = Asked(call.caller, call.path, call.key, hashlib.sha256(call.raw).digest())
    return await engine.submit(submitting.Call(call.caller, call.body, asked))


async def _claim_beside(engine: Engine, call: Call) -> dict[str, Any]:
    """The claim that came with an outcome; the outcome is committed, so a refusal of the claim is only a warning."""
    if call.body.claim is None:
        return {}
    try:
        return wire.claimed(await engine.wait_for_leases(call.caller, call.body.claim, call.client))
    except EvenflowError as error:
        return wire.refused_claim(error)


PREFIX = "/api/v1"
_EXACT = {
    f"{PREFIX}/workers": Verb(register, agents.WorkerIn, 201),
    f"{PREFIX}/claims": Verb(claim, agents.ClaimIn, 200),
    f"{PREFIX}/heartbeats": Verb(heartbeat, agents.HeartbeatIn, 200),
    f"{PREFIX}/completions": Verb(completions, agents.CompletionsIn, 200),
    f"{PREFIX}/tasks": Verb(submit, SubmitIn, 201),
}
_OF_TASK = {outcome: Verb(partial(end, outcome=outcome), schema, 200) for outcome, schema in wire.BODIES.items()}
_OF_TASK["checkpoint"] = Verb(keep, agents.CheckpointIn, 200)
_TASK = re.compile(rf"{PREFIX}/tasks/([0-9]{{1,30}})/({'|'.join(_OF_TASK)})")
_SESSION = re.compile(rf"{PREFIX}/sessions/([0-9]{{1,30}})")
_GOODBYE = Verb(goodbye, None, 204)


def route(method: str, path: str) -> tuple[Verb, int] | None:
    """The verb of an address and the id in it; None: not ours."""
    if method == "POST":
        if (verb := _EXACT.get(path)) is not None:
            return verb, 0
        if found := _TASK.fullmatch(path):
            return _OF_TASK[found[2]], int(found[1])
    elif method == "DELETE" and (found := _SESSION.fullmatch(path)):
        return _GOODBYE, int(found[1])
    return None


def checked(schema: Any, value: Any) -> Any:
    """The body as its schema's instance."""
    return validate(schema, value)
