"""Submitted tasks between schema and service, both ways: the same for ninja and the hot plane."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dispatch.api import idempotent
from dispatch.api.problems import Answer, answer
from dispatch.api.schemas_tasks import SubmitIn, TaskIn, TasksIn
from dispatch.core import canonical
from dispatch.errors import EvenflowError
from dispatch.services import submit as service
from dispatch.services.idempotency import Asked
from dispatch.services.messages import Caller, SubmitCall, Submitted, TaskSpec


def submit(caller: Caller, body: SubmitIn) -> dict[str, Any]:
    """Put in one task or many; the answer has the shape of the request."""
    if isinstance(body.root, TasksIn):
        many = service.submit(caller, [spec(task) for task in body.root.tasks], batch=True)
        return {"tasks": [_answer(one) for one in many]}
    return _answer(service.submit(caller, [spec(body.root)], batch=False)[0])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of submit in the hot plane; `asked` where it has an Idempotency-Key."""

    caller: Caller
    body: SubmitIn
    asked: Asked | None


def weight(call: Call) -> int:
    """How many tasks a call brings: a batch takes few large calls or many small ones."""
    return len(call.body.root.tasks) if isinstance(call.body.root, TasksIn) else 1


def submit_many(calls: Sequence[Call]) -> list[Answer | Exception]:
    """Several calls in one transaction, each with its own answer."""

    def make(numbers: Sequence[int]) -> list[Answer | Exception]:
        results = service.submit_many([_call(calls[n]) for n in numbers])
        return [_made(calls[n].body, found) for n, found in zip(numbers, results, strict=True)]

    return idempotent.once_many([call.asked for call in calls], make)


def _call(call: Call) -> SubmitCall:
    root = call.body.root
    many = isinstance(root, TasksIn)
    tasks = root.tasks if isinstance(root, TasksIn) else [root]
    return SubmitCall(caller=call.caller, tasks=[spec(task) for task in tasks], batch=many)


def _made(body: SubmitIn, found: list[Submitted] | EvenflowError) -> Answer | Exception:
    if isinstance(found, EvenflowError):
        return found
    many = isinstance(body.root, TasksIn)
    return answer(201, {"tasks": [_answer(one) for one in found]} if many else _answer(found[0]))


def spec(task: TaskIn) -> TaskSpec:
    """One task as the service takes it."""
    return TaskSpec(
        tenant=task.tenant,
        work_class=task.work_class,
        payload=task.payload,
        user=task.user,
        pool=task.pool,
        type=task.type or "",
        capabilities=tuple(sorted(set(task.capabilities or ()))),
        tools=tuple(sorted(set(task.tools or ()))),
        cost=task.cost,
        priority=task.priority or 0,
        key=task.key,
        run_at=task.run_at,
        max_attempts=task.max_attempts,
        max_runtime_s=task.max_runtime_s,
        progress_timeout_s=task.progress_timeout_s,
        deadline=task.deadline,
        content_hash=None if task.key is None else content_hash(task),
    )


def content_hash(task: TaskIn) -> bytes:
    """The hash of everything that was sent but the key, in canonical JSON."""
    sent = task.model_dump(exclude_unset=True, by_alias=True, exclude={"key"})
    times = {name: sent[name].isoformat() for name in ("run_at", "deadline") if sent.get(name)}
    return canonical.content_hash({**sent, **times})


def _answer(done: Submitted) -> dict[str, Any]:
    return {"id": done.id, "state": done.state, "created": done.created, "lane": done.lane}
