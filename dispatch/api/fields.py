"""Field types of the contract: slugs, times, numbers and free JSON, strict (no "3" or true for a number).

All are pydantic annotations, used by every schema of the API and so by both planes. Sizes raise `TooLarge` (413);
everything else becomes a 422 that names the field.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from dispatch.api import parsing
from dispatch.conf import limits
from dispatch.errors import TooLarge

NUL = "\x00"
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Model(BaseModel):
    """Base of all requests: strict types, unknown fields refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _no_nul(text: str) -> str:
    if NUL in text:
        raise PydanticCustomError("nul", "NUL (\\u0000) is not permitted here")
    return text


def _time(value: Any) -> datetime:
    """An RFC 3339 text as an aware datetime in UTC."""
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise PydanticCustomError("time", "a time must be RFC 3339 text such as 2026-01-31T12:00:00Z")


def _measured(limit: str, what: str) -> Any:
    """A check that a free JSON value fits the named limit and the permitted depth."""

    def check(value: Any) -> Any:
        packed = orjson.dumps(value)
        most = getattr(limits(), limit)
        if len(packed) > most:
            raise TooLarge(f"A {what} holds at most {most} bytes.")
        deepest = limits().depth
        if packed.count(b"[") + packed.count(b"{") > deepest and parsing.depth(value) > deepest:
            raise PydanticCustomError("depth", f"nesting is limited to {deepest} levels")
        return value

    return AfterValidator(check)


def _json_without_nul(value: Any) -> Any:
    """Refuse NUL in keys and texts of a free JSON value, naming the place."""
    if b"\\u0000" in orjson.dumps(value):
        for path, _ in parsing.find(value, lambda item: "nul" if isinstance(item, str) and NUL in item else None):
            where = "" if path == "body" else path
            raise PydanticCustomError("nul", "NUL (\\u0000) is not permitted here", {"path": where})
    return value


Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Text = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_no_nul)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_no_nul)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(_no_nul)]
Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]

Id = Annotated[int, WithJsonSchema({"type": "integer", "format": "int64"})]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Cost = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


def _weight(value: float) -> float:
    if value != 0 and not 0.001 <= value <= 1000:
        raise PydanticCustomError("weight", "a weight is 0 or within 0.001..1000")
    return value


Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False), AfterValidator(_weight)]
PositiveWeight = Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False)]

Payload = Annotated[Any, _measured("payload_bytes", "payload"), AfterValidator(_json_without_nul)]
Result = Annotated[Any, _measured("result_bytes", "result")]
Checkpoint = Annotated[Any, _measured("checkpoint_bytes", "checkpoint")]
Labels = Annotated[dict[str, Any], _measured("checkpoint_bytes", "set of labels"), AfterValidator(_json_without_nul)]
