"""Steering and explaining work that exists: pause, resume, why, workers, leases."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers_commands as answers
from dispatch.api import schemas_commands as schemas
from dispatch.api.app import caller, verb
from dispatch.api.routes_tasks import known
from dispatch.api.schemas_policy import ReasonQuery, given
from dispatch.services import changes, explain, keys, worker_control
from dispatch.services import pause as pausing
from dispatch.services import revoke as revoking

router = Router(tags=["commands"])


@verb(router, "POST", "/pause", "pause", answer=answers.Pause)
def pause(request: HttpRequest, body: schemas.PauseIn) -> dict[str, Any]:
    """Start nothing new in a scope; what runs goes on."""
    return pausing.pause(caller(request), body.scope, body.slug, body.reason, body.until, body.pool)


@verb(router, "POST", "/resume", "resume", answer=answers.Pause)
def resume(request: HttpRequest, body: schemas.ResumeIn) -> dict[str, Any]:
    """Take a pause off."""
    return pausing.resume(caller(request), body.scope, body.slug, body.reason, body.pool)


@verb(router, "GET", "/workers/{int:worker_id}", "get_worker", answer=answers.WorkerDetail)
def get_worker(request: HttpRequest, worker_id: int) -> dict[str, Any]:
    """One worker with its sessions and leases."""
    return worker_control.get_worker(caller(request), known(worker_id))


@verb(router, "PATCH", "/workers/{int:worker_id}", "patch_worker", answer=answers.Worker)
def patch_worker(request: HttpRequest, worker_id: int, body: schemas.WorkerChange) -> dict[str, Any]:
    """Change a worker's weight; drain, pause or quarantine it, or take that back."""
    edits = given(body)
    return worker_control.patch_worker(caller(request), known(worker_id), edits, edits.pop("reason", ""))


@verb(router, "DELETE", "/workers/{int:worker_id}", "delete_worker", answer=None, status=204)
def delete_worker(request: HttpRequest, worker_id: int, query: Query[ReasonQuery]) -> None:
    """Take a worker that holds nothing out of the fleet."""
    worker_control.delete_worker(caller(request), known(worker_id), query.reason)


@verb(router, "POST", "/leases/{int:task_id}/revoke", "revoke", answer=answers.Revoked)
def revoke(request: HttpRequest, task_id: int, body: schemas.RevokeIn) -> dict[str, Any]:
    """Take a lease back: the task is queued again in its place, no attempt is counted."""
    return dict(revoking.revoke(caller(request), known(task_id), body.reason))


@verb(router, "GET", "/tasks/{int:task_id}/why", "why", answer=answers.Why)
def why(request: HttpRequest, task_id: int) -> dict[str, Any]:
    """Why a task does not run: every blocker, its place, an estimate, who holds the slots."""
    return explain.why(caller(request), known(task_id))


@verb(router, "GET", "/tasks/changes", "list_changes", answer=answers.Changes)
def list_changes(request: HttpRequest, query: Query[schemas.ChangesQuery]) -> dict[str, Any]:
    """Ended tasks in the order of their ends, from a cursor on."""
    return changes.list_changes(caller(request), query.cursor, query.limit, query.tenant)


@verb(router, "POST", "/keys/{int:key_id}/rotate", "rotate_key", answer=answers.RotatedKey, withheld="key")
def rotate_key(request: HttpRequest, key_id: int, body: schemas.RotateIn | None = None) -> dict[str, Any]:
    """A new key in the place of an old one, which works for `overlap_s` more."""
    return keys.rotate_key(caller(request), known(key_id), body.overlap_s if body else 0.0)
