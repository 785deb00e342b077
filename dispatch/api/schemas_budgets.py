"""What operators send about cost budgets."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dispatch.api.fields import Cost, Model, Slug, Text, Time
from dispatch.api.schemas_policy import Reason
from dispatch.api.schemas_quotas import Version
from dispatch.core.validate import MAX_COST, MAX_SECONDS

_NONE: Any = Field(default_factory=lambda: None)  # a factory: the document must not say that null is a default
Word = Annotated[Text, StringConstraints(min_length=1, max_length=64)]


class _Budget(Model):
    unit: Annotated[Text, StringConstraints(min_length=1, max_length=32)] | None = _NONE
    window: Literal["hour", "day", "week", "month"] | None = _NONE
    window_s: Annotated[float, Field(ge=1, le=MAX_SECONDS, allow_inf_nan=False)] | None = _NONE
    timezone: Word = _NONE
    on_breach: Literal["hold", "degrade", "stop"] = _NONE
    degrade_to: Slug | None = _NONE
    alert_at: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = _NONE


class BudgetIn(_Budget):
    """A new cost budget; `limit` in the unit of the pools that it counts (`unit`; null: all pools)."""

    slug: Slug
    limit: Cost
    work_class: Slug | None = Field(default_factory=lambda: None, alias="class")
    user: Word | None = _NONE
    reason: Text = ""


class BudgetChange(_Budget):
    """A change of a cost budget; `version` is the one that was read. Class and user cannot be changed."""

    version: Version
    reason: Reason
    limit: Cost = _NONE


class TopUpIn(Model):
    """More until the window ends."""

    amount: Annotated[float, Field(gt=0, le=MAX_COST, allow_inf_nan=False)]
    reason: Reason


class OverrideIn(Model):
    """Another limit in the budget's place until a time (null: no limit)."""

    limit: Cost | None
    until: Time
    reason: Reason
