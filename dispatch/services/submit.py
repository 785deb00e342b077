"""Submit: check a batch against names and limits, find or make its lanes, insert it in one statement, hint the pools.

One transaction, all or nothing: a bad task refuses the batch with its index in the field name. A key (unique per
tenant) that exists with the same content answers the first id; with other content the whole batch is refused
(KeyReused). Paused pools, classes, tenants and tools take tasks; they wait. A task with `run_at` in the future is
`scheduled` and its place in the lane counts from `run_at` (else tasks scheduled long ahead would jump the lane). A task
whose deadline has passed is taken and is `dead` ("expired") at once. `max_queued` counts waiting tasks: queued,
scheduled and held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError

from dispatch import conf, events
from dispatch.core import validate
from dispatch.core.states import State
from dispatch.core.validate import NO_USER
from dispatch.errors import EvenflowError, Forbidden, Invalid, KeyReused, Unavailable
from dispatch.services import access, limits, specs
from dispatch.services.messages import Caller, SubmitCall, Submitted, TaskSpec
from dispatch.store import db, lanes

TRIES = 3  # a lane or a key's holder may vanish between two statements


Names = dict[tuple[str, str], dict[str, Any]]  # (kind, slug) → row of resolve_names


class _Vanished(Exception):
    """A row that was there a moment ago is gone: start over."""


@dataclass(slots=True, kw_only=True)
class _Item:
    """One task of a batch on its way to a row. `stands_for`: the id, state and lane that answer for it."""

    at: str  # the prefix of its fields in errors
    spec: TaskSpec
    payload: str
    content_hash: bytes | None
    tenant_id: int
    class_id: int
    pool_id: int
    tools: tuple[int, ...]
    lane_id: int = 0
    stands_for: tuple[int, int, int] | None = None
    created: bool = False

    @property
    def key(self) -> tuple[int, str] | None:
        return None if self.spec.key is None else (self.tenant_id, self.spec.key)


def submit(caller: Caller, tasks: Sequence[TaskSpec], *, batch: bool = True) -> list[Submitted]:
    """Take tasks (scope `submit`); the answers in order. `batch`: fields in errors carry `tasks[i].`.

    Raises Invalid, TooLarge, KeyReused, RateLimited (with `retry_after_s`), Forbidden.
    """
    access.require(caller, "submit")
    for _ in range(TRIES):
        try:
            with db.atomic():
                return _submit(caller, tasks, batch)
        except (IntegrityError, _Vanished):
            lanes.forget()
    raise Unavailable("The tasks could not be stored just now.", retry_after_s=1)


def submit_many(calls: Sequence[SubmitCall]) -> list[list[Submitted] | EvenflowError]:
    """Several calls in one transaction; each has its own answer or refusal, as if it had come alone.

    What is wrong with one call by itself is told to that call only. A refusal that the calls bring about together (a
    key twice, a limit reached) makes each of them run alone, in order.
    """
    if len(calls) > 1:
        try:
            return _together(calls)
        except (EvenflowError, IntegrityError, _Vanished):
            lanes.forget()
    return [_alone(call) for call in calls]


def _alone(call: SubmitCall) -> list[Submitted] | EvenflowError:
    try:
        return submit(call.caller, call.tasks, batch=call.batch)
    except EvenflowError as error:
        return error


def _together(calls: Sequence[SubmitCall]) -> list[list[Submitted] | EvenflowError]:
    with db.atomic():
        names = _names([task for call in calls for task in call.tasks])
        prepared = [_checked(call, names) for call in calls]
        tenants = {row["id"]: row for (kind, _), row in names.items() if kind == "tenant"}
        done = iter(_put([item for items in prepared if isinstance(items, list) for item in items], tenants))
        return [[next(done) for _ in items] if isinstance(items, list) else items for items in prepared]


def _checked(call: SubmitCall, names: Names) -> list[_Item] | EvenflowError:
    try:
        access.require(call.caller, "submit")
        return _prepare(call.caller, call.tasks, call.batch, names)
    except EvenflowError as error:
        return error


def _submit(caller: Caller, tasks: Sequence[TaskSpec], batch: bool) -> list[Submitted]:
    names = _names(tasks)
    tenants = {row["id"]: row for (kind, _), row in names.items() if kind == "tenant"}
    return _put(_prepare(caller, tasks, batch, names), tenants)


def _put(items: Sequence[_Item], tenants: dict[int, dict[str, Any]]) -> list[Submitted]:
    firsts = _distinct(items)
    _meet_holders(firsts.values())
    new = [item for item in firsts.values() if item.stands_for is None]
    if new:
        limits.check_stopped(((item.tenant_id, item.class_id, item.spec.user or NO_USER) for item in new), tenants)
        limits.check_rates([item.tenant_id for item in new], tenants)
        _find_lanes(new)
        _insert(new)
        started = {item.pool_id for item in new if item.stands_for and item.stands_for[1] == State.QUEUED}
        db.hint(events.POOL, started)
    return [_answer(item, firsts[_identity(item)]) for item in items]


def _prepare(caller: Caller, tasks: Sequence[TaskSpec], batch: bool, names: Names) -> list[_Item]:
    problems: specs.Problems = []
    items = []
    for index, spec in enumerate(tasks):
        at = f"tasks[{index}]." if batch else ""
        item, found = _item(caller, spec, at, names)
        problems += [(at + field, sentence) for field, sentence in found]
        if item:
            items.append(item)
    if problems:
        raise Invalid(*problems)
    return items


def _names(tasks: Sequence[TaskSpec]) -> Names:
    """Rows by (kind, slug) of everything that a batch names; what is no slug is not looked for."""
    wanted: dict[str, set[str]] = {"pools": set(), "classes": set(), "tenants": set(), "tools": set()}
    for spec in tasks:
        wanted["pools"].update([spec.pool] if spec.pool else [])
        wanted["classes"].add(spec.work_class)
        wanted["tenants"].add(spec.tenant)
        wanted["tools"].update(spec.tools)
    params = {kind: [name for name in names if validate.is_slug(name)] for kind, names in wanted.items()}
    return {(row["kind"], row["slug"]): row for row in db.rows("resolve_names", params)}


def _item(caller: Caller, spec: TaskSpec, at: str, names: Names) -> tuple[_Item | None, specs.Problems]:
    problems = specs.problems(spec)
    payload, problem = specs.payload_text(spec.payload)
    if problem:
        problems.append(("payload", problem))
    tenant = names.get(("tenant", spec.tenant))
    work_class = names.get(("class", spec.work_class))
    tools = [names.get(("tool", name)) for name in sorted(set(spec.tools))]
    named = {field for field, _ in problems}
    if "tenant" not in named and (tenant is None or not access.sees_tenant(caller, tenant["id"])):
        problems.append(("tenant", "there is no such tenant"))
    elif tenant and not access.may(caller, "submit", tenant["id"]):
        raise Forbidden("This needs the scope submit in that tenant.")
    if "class" not in named:
        problems += _class_problems(caller, spec, work_class, names.get(("pool", spec.pool or "")))
    if not any(field.startswith("tools") for field in named):
        problems += [("tools", f"there is no tool {name}") for name in spec.tools if ("tool", name) not in names]
    if problems or tenant is None or work_class is None:
        return None, problems
    return _Item(
        at=at,
        spec=spec,
        payload=payload,
        content_hash=specs.hash_of(spec) if spec.key is not None else None,
        tenant_id=tenant["id"],
        class_id=work_class["id"],
        pool_id=work_class["pool_id"],
        tools=tuple(sorted(tool["id"] for tool in tools if tool)),
    ), []


def _class_problems(
    caller: Caller, spec: TaskSpec, work_class: dict[str, Any] | None, pool: dict[str, Any] | None
) -> specs.Problems:
    bound = caller.pool_id
    if spec.pool and (pool is None or bound not in {None, pool["id"]}):
        return [("pool", "there is no such pool")]
    if work_class is None or bound not in {None, work_class["pool_id"]}:
        return [("class", "there is no such class")]
    if pool and work_class["pool_id"] != pool["id"]:
        return [("class", f"is not a class of the pool {spec.pool}")]
    return []


def _identity(item: _Item) -> tuple[int, str] | int:
    return item.key or id(item)


def _distinct(items: Sequence[_Item]) -> dict[tuple[int, str] | int, _Item]:
    """The first item of each key (and every item without one), in order."""
    firsts: dict[tuple[int, str] | int, _Item] = {}
    for item in items:
        first = firsts.setdefault(_identity(item), item)
        if first.content_hash != item.content_hash:
            raise _reused(item)
    return firsts


def _reused(item: _Item) -> KeyReused:
    return KeyReused(f"{item.at}key: another task of this tenant has this key with other content.")


def _meet_holders(items: Any, *, all_must: bool = False) -> None:
    """Let tasks that hold a key already stand for the items that bring it again."""
    keyed = {item.key: item for item in items if item.key}
    if not keyed:
        return
    tenants, keys = zip(*keyed, strict=True)
    found = db.rows("find_task_keys", {"tenants": list(tenants), "keys": list(keys)})
    for row in found:
        item = keyed[row["tenant_id"], row["key"]]
        if row["content_hash"] is None or bytes(row["content_hash"]) != item.content_hash:
            raise _reused(item)
        item.stands_for = (row["id"], row["state"], row["lane_id"])
    if all_must and len(found) < len(keyed):
        raise _Vanished


def _find_lanes(items: Sequence[_Item]) -> None:
    """Give each item its lane; a tenant's lanes are counted where one may be new."""
    names = [
        lanes.LaneName(
            pool=item.pool_id,
            work_class=item.class_id,
            tenant=item.tenant_id,
            user=item.spec.user or NO_USER,
            capabilities=tuple(sorted(set(item.spec.capabilities))),
            tools=item.tools,
        )
        for item in items
    ]
    known = lanes.remembered(names)
    ids = lanes.resolve(names)
    for item, name in zip(items, names, strict=True):
        item.lane_id = ids[name]
    used = {(item.tenant_id, item.pool_id, item.lane_id) for item in items}
    limits.check_lanes(used, conf.limits().lanes, known=known)


def _insert(items: Sequence[_Item]) -> None:
    ids = [row[0] for row in db.tuples("allocate_task_ids", {"n": len(items)})]
    states = dict(db.tuples("insert_tasks", _columns(items, ids)))
    for item, task_id in zip(items, ids, strict=True):
        if task_id in states:
            item.stands_for, item.created = (task_id, states[task_id], item.lane_id), True
    _meet_holders([item for item in items if not item.created], all_must=True)


def _columns(items: Sequence[_Item], ids: list[int]) -> dict[str, list[Any]]:
    tasks = [item.spec for item in items]
    return {
        "id": ids,
        "pool_id": [item.pool_id for item in items],
        "work_class_id": [item.class_id for item in items],
        "tenant_id": [item.tenant_id for item in items],
        "lane_id": [item.lane_id for item in items],
        "payload": [item.payload for item in items],
        "content_hash": [item.content_hash for item in items],
        "cost_hint": [specs.micro(spec.cost) for spec in tasks],
        "type": [spec.type for spec in tasks],
        "priority": [spec.priority for spec in tasks],
        "key": [spec.key for spec in tasks],
        "run_at": [spec.run_at for spec in tasks],
        "deadline": [spec.deadline for spec in tasks],
        "max_attempts": [spec.max_attempts for spec in tasks],
        "max_runtime_s": [_float(spec.max_runtime_s) for spec in tasks],
        "progress_timeout_s": [_float(spec.progress_timeout_s) for spec in tasks],
    }


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _answer(item: _Item, first: _Item) -> Submitted:
    assert first.stands_for is not None
    task_id, state, lane_id = first.stands_for
    return Submitted(id=task_id, state=State(state).word, created=first.created and item is first, lane=lane_id)
