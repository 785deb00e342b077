"""Submitters' and readers' routes: submit, get, list, edit, cancel, requeue."""

import time
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers, answers_commands, connection, schemas_commands, submitting
from dispatch.api import schemas_tasks as schemas
from dispatch.api.app import caller, verb
from dispatch.api.parsing import INT_MAX
from dispatch.api.schemas_policy import given
from dispatch.core.states import FINAL
from dispatch.errors import NotFound
from dispatch.services import cancel as cancelling
from dispatch.services import edit_task, task_list, tasks
from dispatch.services import requeue as requeueing

POLL_S = 0.25  # between two looks while waiting for a final state
ENDS = frozenset(state.word for state in FINAL)

router = Router(tags=["tasks"])


@verb(router, "POST", "/tasks", "submit", answer=answers.Submitted | answers.SubmittedMany, status=201)
def submit(request: HttpRequest, body: schemas.SubmitIn) -> dict[str, Any]:
    """Put in one task or many; many are all taken or none."""
    return submitting.submit(caller(request), body)


@verb(router, "GET", "/tasks", "list_tasks", answer=answers.TaskPage)
def list_tasks(request: HttpRequest, query: Query[schemas.TaskQuery]) -> dict[str, Any]:
    """Tasks that meet all filters."""
    filters = query.model_dump(by_alias=True, exclude_none=True, exclude={"limit", "cursor"})
    return page(task_list.list_tasks(caller(request), filters, query.limit, query.cursor))


@verb(router, "GET", "/tasks/{int:task_id}", "get_task", answer=answers.Task)
def get_task(request: HttpRequest, task_id: int, query: Query[schemas.WaitQuery]) -> dict[str, Any]:
    """One task; with `wait_s` the answer waits for a final state."""
    until = time.monotonic() + query.wait_s
    while True:
        task: dict[str, Any] = tasks.get_task(caller(request), known(task_id))
        left = until - time.monotonic()
        if task["state"] in ENDS or left <= 0 or connection.is_gone(request):
            return task
        time.sleep(min(POLL_S, left))


@verb(router, "PATCH", "/tasks/{int:task_id}", "patch_task", answer=answers_commands.Edited)
def patch_task(request: HttpRequest, task_id: int, body: schemas_commands.TaskChange) -> dict[str, Any]:
    """Change a waiting task; hold it, or let it go."""
    changes = given(body)
    return edit_task.edit_task(caller(request), known(task_id), changes, changes.pop("reason", ""))


@verb(router, "POST", "/tasks/{int:task_id}/cancel", "cancel", answer=answers.Cancelled)
def cancel(request: HttpRequest, task_id: int, body: schemas.ReasonIn | None = None) -> dict[str, Any]:
    """Cancel a task: at once while it waits, at its agent's next heartbeat while it runs."""
    return cancelling.cancel(caller(request), known(task_id), (body and body.reason) or "")


@verb(router, "POST", "/tasks/{int:task_id}/requeue", "requeue", answer=answers.StateAnswer)
def requeue(request: HttpRequest, task_id: int, body: schemas.ReasonIn | None = None) -> dict[str, Any]:
    """Give a dead task fresh attempts at the back of its lane."""
    return requeueing.requeue(caller(request), known(task_id), (body and body.reason) or "")


def known(object_id: int) -> int:
    """The id, if the database could hold it; else NotFound."""
    if not 0 < object_id <= INT_MAX:
        raise NotFound
    return object_id


def page(found: Any) -> dict[str, Any]:
    """A page of a list as its answer."""
    return {"items": found.items, "next_cursor": found.next_cursor}
