"""List tasks by the filters of the API. Unknown filters, bad values and unknown names are refused by their names.

`state`, `id` and `fingerprint` (`none`: no error) take one or several with commas; `user`, `worker` (what it holds
now), `capability`, `type` and `key` match exactly; `error` is a part of the error's message, in any case; `min_age_s`
means queued and startable for so long, `min_cost` a higher estimate, `args.<path>` compares a value in the payload (for
those who may see it). Another tenant's name answers like an unknown one.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dispatch.core import validate
from dispatch.core.states import State
from dispatch.core.types import MICRO
from dispatch.errors import Invalid
from dispatch.services import access, paging
from dispatch.services.messages import Caller, Page
from dispatch.store import db
from dispatch.store import tasks as store

STATES = {state.word: state for state in State}
NAMED = {"class": "class_id", "tenant": "tenant_ids", "pool": "pool_id", "tool": "tool_id"}
TEXT_LENGTH = 200
MAX_IDS = 1000
ARGS = "args."  # begin of the name of a filter on the payload
NO_ERROR = "none"  # fingerprint of dead tasks without an error, such as those whose deadline passed
Values = dict[str, Any]


def list_tasks(
    caller: Caller, filters: Mapping[str, Any] | None = None, limit: int = 100, cursor: str | None = None
) -> Page:
    """One page of tasks (scope `read`), newest first unless `order` says otherwise (see store/tasks.py)."""
    access.require(caller, "read")
    limit = paging.check_limit(limit)
    given = {name: value for name, value in (filters or {}).items() if value is not None}
    order = given.pop("order", "-id")
    values, problems = parse(given)
    if order not in store.ORDERS:
        problems.append(("order", f"must be one of {', '.join(store.ORDERS)}"))
    if problems:
        raise Invalid(*problems)
    position = _position(order, cursor) if cursor else None
    if not _narrow(caller, values):
        return Page(items=[], next_cursor=None)
    found = store.find(values, order, limit + 1, position)
    column = store.ORDERS[order].column
    page = paging.page(f"tasks.{order}", found, limit, lambda row: [_plain(row[column]), row["id"]])
    return Page(items=[item(row) for row in page.items], next_cursor=page.next_cursor)


def conditions(caller: Caller, filters: Mapping[str, Any]) -> Values | None:
    """The filters as conditions inside what the caller may see; None when that is nothing. Raises Invalid."""
    values, problems = parse({name: value for name, value in filters.items() if value is not None})
    if problems:
        raise Invalid(*problems)
    return values if _narrow(caller, values) else None


def parse(given: Mapping[str, Any]) -> tuple[Values, list[tuple[str, str]]]:
    """Filters as conditions of store/tasks.py, and what is wrong with them as (filter, sentence)."""
    values: Values = {}
    problems = []
    for name, value in given.items():
        check = _argument if str(name).startswith(ARGS) else CHECKS.get(name)
        problem = check(values, name, value) if check else "is not a filter of this list"
        if problem:
            problems.append((str(name), problem))
    return values, problems


def _state(values: Values, name: str, value: Any) -> str | None:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(word in STATES for word in words):
        return f"must be one or more of {', '.join(STATES)}"
    states = sorted({STATES[word] for word in words})
    values |= {states[0].word: True} if len(states) == 1 else {"states": [int(state) for state in states]}
    return None


def _name(values: Values, name: str, value: Any) -> str | None:
    row = db.one("find_slug", {"kind": name, "slug": value}) if validate.is_slug(value) else None
    if row is None:
        return f"there is no such {name}"
    values[NAMED[name]] = [row["id"]] if name == "tenant" else row["id"]
    return None


def _slug(values: Values, name: str, value: Any) -> str | None:
    if name == "user" and value == validate.NO_USER:
        values[name] = value
        return None
    values[name] = value
    return validate.slug(value)


def _text(values: Values, name: str, value: Any) -> str | None:
    values[name] = value
    return validate.text(value, 1, TEXT_LENGTH)


def _fingerprint(values: Values, name: str, value: Any) -> str | None:
    if problem := validate.text(value, 1, 20 * TEXT_LENGTH):
        return problem
    values[name] = ["" if one == NO_ERROR else one for one in value.split(",")]
    return None


def _ids(values: Values, name: str, value: Any) -> str | None:
    words = value.split(",") if isinstance(value, str) else []
    if not words or len(words) > MAX_IDS or not all(word.isdecimal() and len(word) < 19 for word in words):
        return f"must be 1 to {MAX_IDS} task numbers with commas between them"
    values["ids"] = [int(word) for word in words]
    return None


def _error(values: Values, name: str, value: Any) -> str | None:
    if problem := validate.text(value, 1, TEXT_LENGTH):
        return problem
    literal = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    values[name] = f"%{literal}%"
    return None


def _cost(values: Values, name: str, value: Any) -> str | None:
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return "must be a number"
    if problem := validate.number(number, 0, validate.MAX_COST):
        return problem
    values[name] = round(number * MICRO)
    return None


def _argument(values: Values, name: str, value: Any) -> str | None:
    """`args.repo`, `args.job.name`: one value inside the payload, compared as text."""
    path = name.removeprefix(ARGS)
    if problem := validate.text(path, 1, TEXT_LENGTH) or validate.text(value, 0, TEXT_LENGTH):
        return problem
    values["arg_paths"] = [*values.pop("arg_paths", []), path]
    values["arg_values"] = [*values.pop("arg_values", []), value]
    return None


def _age(values: Values, name: str, value: Any) -> str | None:
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return "must be a number"
    values[name] = number
    return validate.number(number, 0, validate.MAX_SECONDS)


CHECKS: Mapping[str, Callable[[Values, str, Any], str | None]] = {
    "state": _state,
    "class": _name,
    "tenant": _name,
    "pool": _name,
    "tool": _name,
    "user": _slug,
    "worker": _slug,
    "capability": _slug,
    "type": _slug,
    "key": _text,
    "fingerprint": _fingerprint,
    "id": _ids,
    "error": _error,
    "min_age_s": _age,
    "min_cost": _cost,
}


def see_payloads(caller: Caller, values: Values) -> None:
    """A filter on the payload tells what stands in it: Invalid unless the caller may see the payloads it searches."""
    if "arg_paths" not in values or caller.view_payloads:
        return
    if not caller.payload_tenants or not set(values.get("tenant_ids", ())) <= caller.payload_tenants:
        raise Invalid(("args", "payloads are not shown to your role"))
    values.setdefault("tenant_ids", sorted(caller.payload_tenants))


def _narrow(caller: Caller, values: Values) -> bool:
    """Cut to what the caller may see; False when nothing is left. A hidden name answers like an unknown one."""
    see_payloads(caller, values)
    visible = access.visible_tenants(caller)
    if visible is not None:
        if "tenant_ids" in values and not set(values["tenant_ids"]) <= set(visible):
            raise Invalid(("tenant", "there is no such tenant"))
        values.setdefault("tenant_ids", visible)
    if caller.pool_id is not None and values.setdefault("pool_id", caller.pool_id) != caller.pool_id:
        raise Invalid(("pool", "there is no such pool"))
    return visible is None or bool(visible)


def _position(order: str, cursor: str) -> tuple[Any, int]:
    position = paging.decode(f"tasks.{order}", cursor)
    value = position[0]
    return (datetime.fromisoformat(value) if isinstance(value, str) else value), position[1]


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def item(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of store/tasks.py as the API shows it."""
    shown = {
        name: value for name, value in row.items() if name not in {"tenant_id", "lane_id", "cost_hint", "expires_at"}
    }
    shown["state"] = State(row["state"]).word
    shown["reason"] = row["reason"] or None
    shown["lane"] = row["lane_id"]
    shown["cost"] = None if row["cost_hint"] is None else row["cost_hint"] / MICRO
    shown["lease"] = {"worker": row["worker"], "expires_at": row["expires_at"]} if row["worker"] else None
    return shown
