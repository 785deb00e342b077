"""What operators and departments send about limits inside a tenant, and requests for more."""

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from dispatch.api.fields import Model, Slug, Text, Weight
from dispatch.api.schemas_policy import Reason, policy_fields
from dispatch.api.schemas_tasks import ListQuery
from dispatch.core.validate import MAX_COUNT
from dispatch.services.quota_requests import FIELDS

Maximum = Annotated[int, Field(ge=0, le=MAX_COUNT)] | None
Version = Annotated[int, Field(ge=0, le=2**31 - 1)]


class ClassLimitIn(Model):
    """How many tasks of the class the tenant may run at once (null: no limit of its own)."""

    max: Maximum = Field(default_factory=lambda: None)
    version: Version | None = Field(default_factory=lambda: None)
    reason: Text = ""


class UserLimitIn(ClassLimitIn):
    """How many tasks a user may run at once, and its weight among the tenant's users."""

    weight: Weight = 1


_Changes: Any = create_model(
    "QuotaChanges",
    __base__=Model,
    __doc__="Limits of the tenant that are asked for.",
    **{name: field for name, field in policy_fields("tenant").items() if name in FIELDS},
)


class QuotaRequestIn(Model):
    """A request for more: limits of the tenant, maxima in classes, and why."""

    tenant: Slug
    changes: _Changes = Field(default_factory=_Changes)
    classes: Annotated[dict[Slug, Maximum], Field(max_length=100)] = {}
    reason: Reason


class ApproveIn(Model):
    """`version` is the tenant's, as `current` of the request showed it."""

    version: Version
    note: Text = ""


class RefuseIn(Model):
    """Why not."""

    note: Reason


class NoteIn(Model):
    """A word to go with it."""

    note: Text = ""


class RequestsQuery(ListQuery):
    """Which requests."""

    state: Literal["open", "approved", "refused", "withdrawn"] | None = None
    tenant: Slug | None = None
