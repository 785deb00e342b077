"""/healthz (this process lives) and /readyz (database, migrations and dispatcher do their work)."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from dispatch.services import health


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as this process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200, or within two seconds 503 naming the first part that is missing."""
    part = health.missing_part_soon()
    if part is None:
        return JsonResponse({"status": "ok"})
    problem = {"type": "unavailable", "title": "Unavailable", "status": 503, "detail": f"Not ready: {part}."}
    answer = JsonResponse(problem, status=503, content_type="application/problem+json")
    answer["Retry-After"] = "1"
    return answer
