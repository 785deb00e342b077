"""The policy as a whole: edits together, its versions, going back to one."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import BaseModel, Field

from dispatch.api.app import caller, verb
from dispatch.api.fields import Id, Model, Slug, Time
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_policy import Reason
from dispatch.api.schemas_quotas import Version
from dispatch.api.schemas_tasks import ListQuery
from dispatch.services import policy_preview, policy_sets

router = Router(tags=["policy"])
Kind = Literal["pool", "class", "tenant", "tool"]


class ChangeIn(Model):
    """One edit: which object, the version that was read, and the fields to set (as in its PATCH).

    Version 0 makes an object that is not there yet.
    """

    kind: Kind
    slug: Slug
    version: Version
    set: dict[str, Any]


class ApplyIn(Model):
    """Edits that are made together or not at all; with `dry_run` they are only judged."""

    changes: Annotated[list[ChangeIn], Field(min_length=1, max_length=policy_sets.MOST)]
    reason: Reason
    dry_run: bool = False


class PreviewIn(Model):
    """Edits to try on the backlog of a pool (else the key's, else default)."""

    changes: Annotated[list[ChangeIn], Field(min_length=1, max_length=policy_sets.MOST)]
    pool: Slug | None = None


class Outlook(BaseModel):
    """What one class or tenant gets: `share` of the slot time of `window_s`, waits, the start of its last task."""

    share: float
    wait_p50_s: float | None
    wait_p95_s: float | None
    drain_s: float | None
    gap_s: float


class Compared(BaseModel):
    """One class or tenant as the policy is and as it would be."""

    slug: str
    before: Outlook
    after: Outlook
    verdict: Literal["worse", "same", "better"]


class Previewed(BaseModel):
    """What a draft would do to the backlog as it stands; nothing new arrives in it."""

    pool: str
    slots: int
    queued: int
    started: int
    span_s: int
    window_s: int
    assumed_runtimes: bool
    warnings: list[dict[str, str]]
    classes: list[Compared]
    tenants: list[Compared]
    worse: list[str]


class RestoreIn(Model):
    """Why; `version` is the newest one that was seen, so that nothing unseen is overwritten."""

    reason: Reason
    version: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(default_factory=lambda: None)


class Applied(BaseModel):
    """The policy's version afterwards."""

    version: Id
    warnings: list[dict[str, str]]


class Restored(Applied):
    """What the way back changed and brought back, and what has been made since and stays."""

    changed: list[str]
    revived: list[str]
    made_since: list[str]


class PolicyVersion(BaseModel):
    """One edit."""

    version: Id
    at: Time
    actor: str
    action: str
    kind: Kind
    slug: str
    reason: str
    before: Any
    after: Any


class PolicyVersions(BaseModel):
    """A page of edits."""

    items: list[PolicyVersion]
    next_cursor: str | None


@verb(router, "POST", "/policy/apply", "apply_policy", answer=Applied)
def apply_policy(request: HttpRequest, body: ApplyIn) -> dict[str, Any]:
    """Make several edits at once, all or nothing."""
    changes = [change.model_dump() for change in body.changes]
    return policy_sets.apply(caller(request), changes, body.reason, dry_run=body.dry_run)


@verb(router, "POST", "/policy/preview", "preview_policy", answer=Previewed)
def preview_policy(request: HttpRequest, body: PreviewIn) -> dict[str, Any]:
    """Try several edits on the backlog with the dispatcher's own core; nothing is kept."""
    changes = [change.model_dump() for change in body.changes]
    return policy_preview.preview(caller(request), changes, body.pool)


@verb(router, "GET", "/policy/versions", "list_policy_versions", answer=PolicyVersions)
def list_policy_versions(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
    """Every edit of the policy, newest first."""
    return page(policy_sets.list_versions(caller(request), query.limit, query.cursor))


@verb(router, "POST", "/policy/versions/{int:version}/restore", "restore_policy", answer=Restored)
def restore_policy(request: HttpRequest, version: int, body: RestoreIn) -> dict[str, Any]:
    """Make the policy what it was right after a version."""
    return policy_sets.restore(caller(request), known(version), body.reason, body.version)
