"""Operators' routes over the policy: pools, classes, tenants, tools and capabilities share one shape."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers
from dispatch.api import schemas_policy as schemas
from dispatch.api.app import caller, verb
from dispatch.api.routes_tasks import page
from dispatch.api.schemas_tasks import ListQuery
from dispatch.services import policy

KINDS = {"pool": "pools", "class": "classes", "tenant": "tenants", "tool": "tools", "capability": "capabilities"}

router = Router(tags=["policy"])


def _declare(kind: str, plural: str) -> None:
    """Declare list, create, get, patch and delete of one kind of object."""

    def create(request: HttpRequest, body: Any) -> dict[str, Any]:
        fields = schemas.given(body)
        return policy.create(caller(request), kind, fields.pop("slug"), fields)

    def patch(request: HttpRequest, slug: str, body: Any) -> dict[str, Any]:
        changes = schemas.given(body)
        version, reason = changes.pop("version"), changes.pop("reason")
        return policy.patch(caller(request), kind, slug, version, changes, reason)

    def list_all(request: HttpRequest, query: Query[ListQuery]) -> dict[str, Any]:
        return page(policy.list_(caller(request), kind, query.limit, query.cursor))

    def get(request: HttpRequest, slug: str) -> dict[str, Any]:
        return policy.get(caller(request), kind, slug)

    def delete(request: HttpRequest, slug: str, query: Query[schemas.ReasonQuery]) -> None:
        policy.delete(caller(request), kind, slug, query.reason)

    create.__annotations__["body"] = schemas.creation(kind)
    patch.__annotations__["body"] = schemas.change(kind)
    one = f"/{plural}/{{slug}}"
    tags = [plural]
    verb(router, "GET", f"/{plural}", f"list_{plural}", answer=answers.PolicyPage, tags=tags)(list_all)
    verb(router, "POST", f"/{plural}", f"create_{kind}", answer=answers.Policy, status=201, tags=tags)(create)
    verb(router, "GET", one, f"get_{kind}", answer=answers.Policy, tags=tags)(get)
    verb(router, "PATCH", one, f"patch_{kind}", answer=answers.Policy, tags=tags)(patch)
    verb(router, "DELETE", one, f"delete_{kind}", answer=None, status=204, tags=tags)(delete)


for _kind, _plural in KINDS.items():
    _declare(_kind, _plural)
