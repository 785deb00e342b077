"""Checks of one submitted task, and its values as the columns of `task`. Whoever submits, these rules hold."""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from dispatch import conf
from dispatch.core import canonical, validate
from dispatch.core.types import MICRO
from dispatch.errors import TooLarge
from dispatch.services.messages import TaskSpec

MAX_KEY = 200

Problems = list[tuple[str, str]]


def problems(spec: TaskSpec) -> Problems:
    """Everything wrong with a task by itself, as (field, sentence)."""
    found = [
        ("tenant", validate.slug(spec.tenant)),
        ("class", validate.slug(spec.work_class)),
        ("pool", validate.slug(spec.pool) if spec.pool else None),
        ("user", validate.slug(spec.user) if spec.user and spec.user != validate.NO_USER else None),
        ("type", validate.slug(spec.type) if spec.type else None),
        ("priority", validate.whole(spec.priority, -100, 100)),
        ("cost", None if spec.cost is None else validate.number(spec.cost, 0, validate.MAX_COST)),
        ("max_attempts", None if spec.max_attempts is None else validate.whole(spec.max_attempts, 1, 100)),
        ("max_runtime_s", _seconds(spec.max_runtime_s)),
        ("progress_timeout_s", _seconds(spec.progress_timeout_s)),
        ("run_at", None if spec.run_at is None else validate.moment(spec.run_at)),
        ("deadline", None if spec.deadline is None else validate.moment(spec.deadline)),
        ("key", None if spec.key is None else validate.text(spec.key, 1, MAX_KEY)),
        *_names("capabilities", spec.capabilities, conf.limits().task_capabilities),
        *_names("tools", spec.tools, conf.limits().task_tools),
    ]
    return [(field, problem) for field, problem in found if problem]


def _seconds(value: float | None) -> str | None:
    return None if value is None else validate.number(value, 0, validate.MAX_SECONDS, above=True)


def _names(field: str, names: tuple[str, ...], most: int) -> list[tuple[str, str | None]]:
    if len(set(names)) > most:
        return [(field, f"must be at most {most}")]
    return [(f"{field}[{index}]", validate.slug(name)) for index, name in enumerate(names)]


def payload_text(value: Any) -> tuple[str, str | None]:
    """JSON text of a payload, and what is wrong with it; raises TooLarge."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError):
        return "", "must be JSON without NaN, Infinity or lone surrogates"
    if size > (most := conf.limits().payload_bytes):
        raise TooLarge(f"A payload may have at most {most} bytes of JSON.")
    if "\\u0000" in text and _holds_nul(value):  # the cheap test first: an escaped backslash looks alike
        return "", "must not hold NUL characters"
    return text, None


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
        case list() | tuple():
            return any(_holds_nul(item) for item in value)
    return False


def hash_of(spec: TaskSpec) -> bytes:
    """The content hash that the API computed over what was sent, else one over the fields that are set."""
    if spec.content_hash is not None:
        return spec.content_hash
    sent: dict[str, Any] = {}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name not in {"key", "content_hash"} and (field.name == "payload" or value not in {None, ""}):
            sent[field.name] = value.isoformat() if isinstance(value, datetime) else value
    return canonical.content_hash(sent)


def micro(cost: float | None) -> int | None:
    """A cost in integer micro-units."""
    return None if cost is None else round(cost * MICRO)
