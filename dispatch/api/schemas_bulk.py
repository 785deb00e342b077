"""What operators send for many tasks at once. The filter takes the names of the task list and `fingerprint`."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from dispatch.api.fields import Model
from dispatch.api.schemas_policy import Reason
from dispatch.api.schemas_tasks import TaskFilters


class BulkFilter(TaskFilters):
    """Which tasks; all filters are met, at least one must be given."""

    model_config = ConfigDict(strict=True)


class BulkIn(Model):
    """A new job (`action`, `filter`, `reason`), or the start of a dry run (`from`). The pace goes with both."""

    action: Literal["requeue", "discard", "cancel"] | None = None
    filter: BulkFilter | None = None
    source: Annotated[int, Field(ge=1)] | None = Field(None, alias="from")
    rate_per_s: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    canary: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    stop_above: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    dry_run: bool = False
    reason: Reason | None = None

    def pace(self) -> dict[str, Any]:
        """The pace that was given."""
        return self.model_dump(include={"rate_per_s", "max_in_flight", "canary", "stop_above"}, exclude_none=True)
