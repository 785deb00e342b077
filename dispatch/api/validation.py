"""From pydantic's findings to the contract's: `errors: [{field, message}]` with dotted paths (`tasks[3].payload`)."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dispatch.api.parsing import join
from dispatch.errors import Invalid

TAGS = frozenset({"<one>", "<many>"})  #: names of union branches, which are no part of a path
MOST = 100  #: findings in one answer

M = TypeVar("M", bound=BaseModel)


def validate(schema: type[M], data: Any) -> M:
    """The body as its schema's instance. Raises `Invalid` naming each field, or `TooLarge` from a field."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise Invalid(*findings(error.errors(include_url=False, include_input=False))) from None


def findings(errors: Iterable[Mapping[str, Any]], skip: int = 0) -> list[tuple[str, str]]:
    """(field, message) of each pydantic error; the first `skip` parts of a location are not part of the body."""
    found = []
    for error in errors:
        path = ""
        for part in error["loc"][skip:]:
            if part not in TAGS:
                path = join(path, part)
        if inner := error.get("ctx", {}).get("path"):
            path = f"{path}{inner}" if inner.startswith("[") or not path else f"{path}.{inner}"
        found.append((path or "body", error["msg"]))
        if len(found) == MOST:
            break
    return found
