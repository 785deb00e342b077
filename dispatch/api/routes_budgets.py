"""Cost budgets of a tenant: the ledger's rules, its state, more for a while."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from dispatch.api import answers_budgets as answers
from dispatch.api import schemas_budgets as schemas
from dispatch.api.app import caller, verb
from dispatch.api.routes_tasks import known, page
from dispatch.api.schemas_policy import ReasonQuery, given
from dispatch.api.schemas_tasks import ListQuery
from dispatch.services import budgets

router = Router(tags=["budgets"])
ALL = "/tenants/{slug}/budgets"
ONE = ALL + "/{name}"


@verb(router, "GET", ALL, "list_budgets", answer=answers.Budgets)
def list_budgets(request: HttpRequest, slug: str, query: Query[ListQuery]) -> dict[str, Any]:
    """A tenant's cost budgets with what is spent and left."""
    return page(budgets.list_budgets(caller(request), slug, query.limit, query.cursor))


@verb(router, "POST", ALL, "create_budget", answer=answers.Budget, status=201)
def create_budget(request: HttpRequest, slug: str, body: schemas.BudgetIn) -> dict[str, Any]:
    """Make a cost budget."""
    fields = given(body)
    name, reason = fields.pop("slug"), fields.pop("reason", "")
    return budgets.create(caller(request), slug, name, fields, reason)


@verb(router, "GET", ONE, "get_budget", answer=answers.Budget)
def get_budget(request: HttpRequest, slug: str, name: str) -> dict[str, Any]:
    """One cost budget."""
    return budgets.get(caller(request), slug, name)


@verb(router, "PATCH", ONE, "patch_budget", answer=answers.Budget)
def patch_budget(request: HttpRequest, slug: str, name: str, body: schemas.BudgetChange) -> dict[str, Any]:
    """Edit a cost budget; it acts at the next dispatch cycle."""
    changes = given(body)
    version, reason = changes.pop("version"), changes.pop("reason")
    return budgets.patch(caller(request), slug, name, version, changes, reason)


@verb(router, "DELETE", ONE, "delete_budget", answer=None, status=204)
def delete_budget(request: HttpRequest, slug: str, name: str, query: Query[ReasonQuery]) -> None:
    """End a cost budget."""
    budgets.delete(caller(request), slug, name, query.reason)


@verb(router, "POST", ONE + "/top-ups", "top_up_budget", answer=answers.Budget, status=201)
def top_up_budget(request: HttpRequest, slug: str, name: str, body: schemas.TopUpIn) -> dict[str, Any]:
    """Add to a budget until its window ends."""
    return budgets.top_up(caller(request), slug, name, body.amount, body.reason)


@verb(router, "POST", ONE + "/overrides", "override_budget", answer=answers.Budget, status=201)
def override_budget(request: HttpRequest, slug: str, name: str, body: schemas.OverrideIn) -> dict[str, Any]:
    """Set another limit until a time; it ends by itself."""
    return budgets.override(caller(request), slug, name, body.limit, body.until, body.reason)


@verb(router, "DELETE", ONE + "/extras/{int:extra_id}", "end_budget_extra", answer=answers.Budget)
def end_budget_extra(
    request: HttpRequest, slug: str, name: str, extra_id: int, query: Query[ReasonQuery]
) -> dict[str, Any]:
    """Take a top-up or override back before its time."""
    return budgets.end_extra(caller(request), slug, name, known(extra_id), query.reason)
