"""Dead letters and bulk jobs."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import BaseModel

from dispatch.api import answers
from dispatch.api import schemas_bulk as schemas
from dispatch.api.app import caller, verb
from dispatch.api.fields import Id
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_tasks import ListQuery, TaskQuery
from dispatch.errors import Invalid
from dispatch.services import bulk, dead_letters

router = Router(tags=["dead letters"])


class Skipped(BaseModel):
    """A frozen task that was not touched, and why."""

    task_id: Id
    reason: str


class BulkBrief(BaseModel):
    """A bulk job. `new`: tasks that match the filter but were not frozen."""

    id: Id
    action: str
    filter: dict[str, Any]
    state: str
    reason: str
    matched: int
    done: int
    skipped_count: int
    created_at: datetime


class Bulk(BulkBrief):
    """A bulk job with the tasks that it skipped (at most 1000)."""

    skipped: list[Skipped]
    new: int


class BulkPage(BaseModel):
    """A page of bulk jobs."""

    items: list[BulkBrief]
    next_cursor: str | None


@verb(router, "GET", "/dead-letters/groups", "list_dead_letter_groups", answer=answers.Items)
def list_groups(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
    """Dead letters by what they died of, the largest groups first."""
    return page(dead_letters.list_groups(caller(request), query.limit, query.cursor))


@verb(router, "GET", "/dead-letters", "list_dead_letters", answer=answers.TaskPage)
def list_dead(request: HttpRequest, query: Query[TaskQuery]) -> dict[str, Any]:
    """Dead tasks that meet all filters, newest death first."""
    filters = query.model_dump(by_alias=True, exclude_none=True, exclude={"limit", "cursor"})
    return page(dead_letters.list_dead(caller(request), filters, query.limit, query.cursor))


@verb(router, "POST", "/bulk", "create_bulk", answer=Bulk, status=202)
def create_bulk(request: HttpRequest, body: schemas.BulkIn) -> dict[str, Any]:
    """Requeue, discard or cancel many tasks in the background, or start what a dry run has frozen."""
    if body.source is not None:
        if body.action or body.filter or body.dry_run:
            raise Invalid(("from", "comes without action, filter and dry_run: it runs what was frozen"))
        return bulk.start(caller(request), known(body.source), body.pace(), body.reason)
    missing = [name for name in ("action", "filter", "reason") if getattr(body, name) is None]
    if missing or body.action is None or body.filter is None or body.reason is None:
        raise Invalid(*((name, "is required") for name in missing))
    filters = body.filter.model_dump(by_alias=True, exclude_none=True)
    return bulk.create(caller(request), body.action, filters, body.reason, body.pace(), dry_run=body.dry_run)


@verb(router, "GET", "/bulk", "list_bulk", answer=BulkPage)
def list_bulk(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
    """Bulk jobs, newest first."""
    return page(bulk.list_(caller(request), query.limit, query.cursor))


@verb(router, "GET", "/bulk/{int:job_id}", "get_bulk", answer=Bulk)
def get_bulk(request: HttpRequest, job_id: int) -> dict[str, Any]:
    """One bulk job and how far it is."""
    return bulk.get(caller(request), known(job_id))


@verb(router, "POST", "/bulk/{int:job_id}/pause", "pause_bulk", answer=Bulk)
def pause_bulk(request: HttpRequest, job_id: int) -> dict[str, Any]:
    """Stop touching further tasks until it is resumed."""
    return bulk.command(caller(request), known(job_id), "pause")


@verb(router, "POST", "/bulk/{int:job_id}/resume", "resume_bulk", answer=Bulk)
def resume_bulk(request: HttpRequest, job_id: int) -> dict[str, Any]:
    """Go on with a paused job."""
    return bulk.command(caller(request), known(job_id), "resume")


@verb(router, "POST", "/bulk/{int:job_id}/abort", "abort_bulk", answer=Bulk)
def abort_bulk(request: HttpRequest, job_id: int) -> dict[str, Any]:
    """End a job; what it has done stays done."""
    return bulk.command(caller(request), known(job_id), "abort")


@verb(router, "POST", "/bulk/{int:job_id}/undo", "undo_bulk", answer=Bulk)
def undo_bulk(request: HttpRequest, job_id: int) -> dict[str, Any]:
    """Put requeued tasks that no agent has started back among the dead; a job that still runs is aborted."""
    return bulk.undo(caller(request), known(job_id))
