"""What operators send: policy objects (contract: Operators), keys, windows of numbers.

The policy schemas are made from the one table of fields in core/validate.py. A creation needs only its slug; a change
names the version it read and a reason. Fields left out keep their value; `null` means "none" where it is permitted.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, create_model

from dispatch.api.fields import Model, Name, Slug, Text, Time, Weight
from dispatch.api.schemas_tasks import ListQuery, Query
from dispatch.core import validate
from dispatch.services import stats

Reason = Annotated[Text, StringConstraints(min_length=1)]


def _type(field: validate.Field) -> Any:
    """The pydantic annotation of one policy field."""
    if field.kind == "choice":
        return Literal[field.choices]
    kinds: dict[str, Any] = {
        "whole": Annotated[int, Field(ge=int(field.low), le=int(field.high))],
        "number": Annotated[float, Field(ge=field.low, le=field.high, allow_inf_nan=False)],
        "above": Annotated[float, Field(gt=field.low, le=field.high, allow_inf_nan=False)],
        "text": Annotated[Text, StringConstraints(min_length=int(field.low), max_length=int(field.high))],
        "weight": Weight,
        "bool": bool,
        "slug": Slug,
        "time": Time,
    }
    found = kinds[field.kind]
    return found | None if field.null else found


def policy_fields(kind: str) -> dict[str, Any]:
    """The fields of one kind as pydantic takes them, none of them needed."""
    # a factory, not a default: the document must not say that null is the default of a number
    return {name: (_type(field), Field(default_factory=lambda: None)) for name, field in validate.FIELDS[kind].items()}


def creation(kind: str) -> type[Model]:
    """The body of a POST for one kind of policy object."""
    return create_model(f"{kind.title()}In", __base__=Model, __doc__=f"A new {kind}.", slug=Slug, **policy_fields(kind))


def change(kind: str) -> type[Model]:
    """The body of a PATCH for one kind of policy object."""
    return create_model(
        f"{kind.title()}Change",
        __base__=Model,
        __doc__=f"A change of a {kind}; `version` is the one that was read.",
        version=Annotated[int, Field(ge=0, le=2**31 - 1)],
        reason=Reason,
        **policy_fields(kind),
    )


def given(body: Model) -> dict[str, Any]:
    """The fields that were sent."""
    return body.model_dump(exclude_unset=True, by_alias=True)


class KeyIn(Model):
    """A new API key."""

    name: Name
    scopes: Annotated[list[Literal["submit", "work", "read", "operate", "admin"]], Field(min_length=1, max_length=5)]
    tenant: Slug | None = None
    pool: Slug | None = None
    expires_at: Time | None = None


class ReasonQuery(Query):
    """Why something is taken away; for the audit."""

    reason: Text = ""


class WorkersQuery(ListQuery):
    """Whose fleet."""

    pool: Slug | None = None


class AuditFilter(Query):
    """Filters of the audit; they are all met."""

    actor: Annotated[Text, Field(max_length=320)] | None = None
    action: Annotated[Text, Field(max_length=48)] | None = None
    target_kind: Annotated[Text, Field(max_length=32)] | None = None
    target: Annotated[Text, Field(max_length=200)] | None = None
    tenant: Slug | None = None
    since: Time | None = None
    until: Time | None = None
    only: Literal["refused", "done"] | None = None


class AuditQuery(AuditFilter, ListQuery):
    """One page of the audit."""


class StatsQuery(Query):
    """Whose numbers, and over how many seconds."""

    pool: Slug | None = None
    window_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = stats.DEFAULT_WINDOW_S
