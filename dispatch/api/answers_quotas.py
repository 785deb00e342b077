"""What the routes about limits inside a tenant answer."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from dispatch.api.fields import Id, Slug, Time


class UserLimit(BaseModel):
    """A user of a tenant; `ceiling` is the operators' maximum, above which a department cannot go."""

    user: str
    max: int | None
    weight: float
    ceiling: int | None
    version: int


class ClassLimit(BaseModel):
    """A tenant's own maximum in a class."""

    work_class: Slug = Field(alias="class")
    max: int | None
    ceiling: int | None
    version: int


class UserLimits(BaseModel):
    """A page of users."""

    items: list[UserLimit]
    next_cursor: str | None


class ClassLimits(BaseModel):
    """A page of maxima in classes."""

    items: list[ClassLimit]
    next_cursor: str | None


class QuotaRequest(BaseModel):
    """A request for more and its answer."""

    id: Id
    tenant: Slug
    changes: dict[str, Any]
    classes: dict[str, int | None]
    reason: str
    state: Literal["open", "approved", "refused", "withdrawn"]
    created_at: Time
    created_by: str
    answered_at: Time | None
    answered_by: str
    note: str


class QuotaRequestDetail(QuotaRequest):
    """The same with the tenant's limits as they are; `current.version` goes with an approval."""

    current: dict[str, Any]


class QuotaRequests(BaseModel):
    """A page of requests."""

    items: list[QuotaRequest]
    next_cursor: str | None


class QuotaPreview(BaseModel):
    """What approving would meet."""

    errors: list[dict[str, str]]
    warnings: list[dict[str, str]]
    current: dict[str, Any]
