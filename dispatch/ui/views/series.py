"""`/series.json`: the past of the queues for the charts, read once a step for all who look at the same."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from dispatch import errors
from dispatch.live import snapshots
from dispatch.services import history
from dispatch.ui import pages

FRESH_S = 4.0


@require_safe
@login_required
def series(request: HttpRequest) -> HttpResponse:
    """`?span=`, `?class=`, `?tenant=`, `?pool=`; the lines of services/history.py."""
    asked = {name: request.GET.get(name) or None for name in ("span", "class", "tenant", "pool")}
    person, span = pages.person(request), asked["span"] or "15m"
    try:
        pool = str(pages.numbers(request)["pool"])
        key = (snapshots.audience(person, pool), "series", span, asked["class"], asked["tenant"])
        found = snapshots.shared(
            key, FRESH_S, lambda: history.series(person, pool, span, asked["class"], asked["tenant"])
        )
    except errors.EvenflowError as error:
        return JsonResponse({"detail": error.detail}, status=error.status)
    return JsonResponse(found, headers={"Cache-Control": "no-store"})
