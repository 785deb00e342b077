"""Limits inside a tenant (its users, its part of classes) and requests for more."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers_quotas as answers
from dispatch.api import schemas_quotas as schemas
from dispatch.api.app import caller, verb
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_policy import ReasonQuery, given
from dispatch.api.schemas_tasks import ListQuery
from dispatch.services import quota_requests, tenant_limits

router = Router(tags=["quotas"])


def _declare(kind: str, plural: str, body_of: type[schemas.ClassLimitIn], one_answer: Any, page_answer: Any) -> None:
    """Declare list, get, put and delete of one kind of limit inside a tenant."""

    def list_all(request: HttpRequest, slug: str, query: Query[ListQuery]) -> dict[str, Any]:
        return page(tenant_limits.list_limits(caller(request), slug, kind, query.limit, query.cursor))

    def get(request: HttpRequest, slug: str, name: str) -> dict[str, Any]:
        return tenant_limits.get(caller(request), slug, kind, name)

    def put(request: HttpRequest, slug: str, name: str, body: Any) -> dict[str, Any]:
        fields = given(body)
        version, reason = fields.pop("version", None), fields.pop("reason", "")
        return tenant_limits.put(caller(request), slug, kind, name, fields, version, reason)

    def delete(request: HttpRequest, slug: str, name: str, query: Query[ReasonQuery]) -> None:
        tenant_limits.delete(caller(request), slug, kind, name, query.reason)

    put.__annotations__["body"] = body_of
    several, one = f"/tenants/{{slug}}/{plural}", f"/tenants/{{slug}}/{plural}/{{name}}"
    declared: list[tuple[str, str, str, Any, int, Callable[..., Any]]] = [
        ("GET", several, f"list_tenant_{plural}", page_answer, 200, list_all),
        ("GET", one, f"get_tenant_{kind}", one_answer, 200, get),
        ("PUT", one, f"put_tenant_{kind}", one_answer, 200, put),
        ("DELETE", one, f"delete_tenant_{kind}", None, 204, delete),
    ]
    for method, path, name, answer, status, view in declared:
        verb(router, method, path, name, answer=answer, status=status)(view)


_declare("user", "users", schemas.UserLimitIn, answers.UserLimit, answers.UserLimits)
_declare("class", "classes", schemas.ClassLimitIn, answers.ClassLimit, answers.ClassLimits)


@verb(router, "GET", "/quota-requests", "list_quota_requests", answer=answers.QuotaRequests)
def list_quota_requests(request: HttpRequest, query: Query[schemas.RequestsQuery]) -> dict[str, Any]:
    """Requests for more, newest first."""
    found = quota_requests.list_requests(caller(request), query.state, query.tenant, query.limit, query.cursor)
    return page(found)


@verb(router, "POST", "/quota-requests", "create_quota_request", answer=answers.QuotaRequest, status=201)
def create_quota_request(request: HttpRequest, body: schemas.QuotaRequestIn) -> dict[str, Any]:
    """A department asks its operators for more."""
    return quota_requests.create(caller(request), body.tenant, given(body.changes), body.classes, body.reason)


@verb(router, "GET", "/quota-requests/{int:request_id}", "get_quota_request", answer=answers.QuotaRequestDetail)
def get_quota_request(request: HttpRequest, request_id: int) -> dict[str, Any]:
    """One request, and the tenant's limits as they are."""
    return quota_requests.get(caller(request), known(request_id))


@verb(router, "GET", "/quota-requests/{int:request_id}/preview", "preview_quota_request", answer=answers.QuotaPreview)
def preview_quota_request(request: HttpRequest, request_id: int) -> dict[str, Any]:
    """What approving would meet: refusals and warnings."""
    return quota_requests.preview(caller(request), known(request_id))


@verb(
    router,
    "POST",
    "/quota-requests/{int:request_id}/approve",
    "approve_quota_request",
    answer=answers.QuotaRequestDetail,
)
def approve_quota_request(request: HttpRequest, request_id: int, body: schemas.ApproveIn) -> dict[str, Any]:
    """Give what was asked for, all or nothing."""
    return quota_requests.approve(caller(request), known(request_id), body.version, body.note)


@verb(
    router, "POST", "/quota-requests/{int:request_id}/refuse", "refuse_quota_request", answer=answers.QuotaRequestDetail
)
def refuse_quota_request(request: HttpRequest, request_id: int, body: schemas.RefuseIn) -> dict[str, Any]:
    """Say no, and why."""
    return quota_requests.refuse(caller(request), known(request_id), body.note)


@verb(
    router,
    "POST",
    "/quota-requests/{int:request_id}/withdraw",
    "withdraw_quota_request",
    answer=answers.QuotaRequestDetail,
)
def withdraw_quota_request(request: HttpRequest, request_id: int, body: schemas.NoteIn | None = None) -> dict[str, Any]:
    """Take an open request back."""
    return quota_requests.withdraw(caller(request), known(request_id), body.note if body else "")
