"""The API below /api/v1/ (whatever is not there is a problem document, not a page), and its reference."""

from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

from dispatch.api import (
    metrics,
    problems,
    reference_views,
    routes_agents,
    routes_alerts,
    routes_budgets,
    routes_bulk,
    routes_commands,
    routes_operations,
    routes_policy,
    routes_policy_sets,
    routes_quotas,
    routes_tasks,
    routes_webhooks,
)
from dispatch.api.app import Api, Bearer, StrictParser
from dispatch.errors import NotFound

api = Api(
    title="Evenflow",
    version="1",
    description="Fair-share dispatch for fleets of autonomous agents.",
    urls_namespace="api",
    auth=Bearer(),
    parser=StrictParser(),
    docs_url=None,
)
for routes in (
    routes_tasks,
    routes_agents,
    routes_policy,
    routes_policy_sets,
    routes_operations,
    routes_commands,
    routes_budgets,
    routes_bulk,
    routes_alerts,
    routes_webhooks,
    routes_quotas,
):
    api.add_router("", routes.router)


def missing(request: HttpRequest) -> HttpResponse:
    """Every address below /api/ that is no route."""
    return problems.response(problems.problem(NotFound("There is no such address.", address=request.path)))


missing.csrf_exempt = True  # type: ignore[attr-defined]  # answers 404 to every method

urlpatterns = [
    path("api/v1/", api.urls),
    re_path(r"^api(?:/.*)?$", missing),
    path("metrics", metrics.show, name="metrics"),
    path("docs", reference_views.index, name="docs"),
    path("docs/<slug:name>", reference_views.operation, name="docs_call"),
    path("llms.txt", reference_views.llms, name="llms"),
]
