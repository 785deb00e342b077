"""Edit a waiting task: priority, start, payload, limits; hold it, or let it go. A leased or final one is a Conflict.

`run_at` decides between scheduled and queued (null: at once, also out of a back-off). `held` sets a task aside until it
is let go, whatever held it before (an operator, a breaker, the hand-back limit). The place in the lane stays, except
that a new priority moves it. The key's content is what was submitted first, so a repeated submit still finds the task.
"""

from collections.abc import Mapping
from typing import Any

from dispatch import events
from dispatch.core import validate
from dispatch.core.states import WAITING, State
from dispatch.errors import Conflict, Invalid, NotFound
from dispatch.services import access, audit, specs
from dispatch.services.messages import Caller
from dispatch.store import db

HELD = "held by an operator"
CONTENT = "payload"  # its content stays out of the audit


def _optional(check: Any) -> Any:
    return lambda value: None if value is None else check(value)


CHECKS = {
    "priority": lambda value: validate.whole(value, -100, 100),
    "run_at": _optional(validate.moment),
    "payload": lambda value: specs.payload_text(value)[1],
    "cost": _optional(lambda value: validate.number(value, 0, validate.MAX_COST)),
    "deadline": _optional(validate.moment),
    "max_attempts": _optional(lambda value: validate.whole(value, 1, 100)),
    "max_runtime_s": _optional(lambda value: validate.number(value, 0, validate.MAX_SECONDS, above=True)),
    "progress_timeout_s": _optional(lambda value: validate.number(value, 0, validate.MAX_SECONDS, above=True)),
    "held": validate.boolean,
}


def edit_task(caller: Caller, task_id: int, changes: Mapping[str, Any], reason: str = "") -> dict[str, Any]:
    """Change a waiting task (scope `submit` or `operate`; `held` needs `operate`); its state and fields afterwards."""
    with audit.refusals(caller, "patch_task", "task", task_id):
        task = access.see_task(caller, task_id, "submit", other="operate")
        if "held" in changes:
            access.require(caller, "operate", task["tenant_id"])
        _check(changes, reason)
        with db.atomic():
            old = db.one("lock_edited", {"task_id": task_id})
            if old is None:
                raise NotFound("There is no such task.")
            state = State(old["state"])
            if state not in WAITING:
                raise Conflict(f"The task is {state.word}: only a waiting one can be edited.")
            new = db.rows("edit_task", {"task_id": task_id, "reason": reason or HELD, **_columns(changes)})[0]
            before, after = (_told(row, changes) for row in (old, new))
            audit.record(caller, "patch_task", "task", task_id, before, after, reason, old["tenant_id"])
            db.hint(events.POOL, [old["pool_id"]])
            db.hint(events.LIVE, "tasks")
    return {**new, "state": State(new["state"]).word}


def _check(changes: Mapping[str, Any], reason: str) -> None:
    problems = [] if changes else [("body", f"name one or more of {', '.join(CHECKS)}")]
    problems += validate.each(CHECKS, changes, "is not a field that can be changed")
    if problem := validate.text(reason, 0, audit.REASON_LENGTH):
        problems.append(("reason", problem))
    if problems:
        raise Invalid(*problems)


def _columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    values = dict.fromkeys(CHECKS) | dict(changes)
    values["cost"] = specs.micro(values["cost"])
    values["payload"] = specs.payload_text(changes[CONTENT])[0] if CONTENT in changes else None
    return values | {"given": [name for name in changes if name != "held"]}


def _told(row: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit keeps of one side of an edit."""
    told = {name: row[name] for name in changes if name not in {CONTENT, "held"}}
    changed = {CONTENT: "changed"} if CONTENT in changes else {}
    return {"state": State(row["state"]).word} | told | changed
