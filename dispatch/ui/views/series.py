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
    asked = {name: request.GET.get(name) or None for name in ("span", "class", "tenant")}
    person, span = pages.person(request), asked["span"] or "15m"
    try:
        now = pages.numbers(request)
        slos = {row["slug"]: row["slo_queue_s"] for row in now["classes"]}
        key = (snapshots.audience(person, now["pool"]), "series", span, asked["tenant"])
        found = snapshots.shared(key, FRESH_S, lambda: history.series(person, now["pool"], span, asked["tenant"], slos))
    except errors.EvenflowError as error:
        return JsonResponse({"detail": error.detail}, status=error.status)
    if asked["class"]:
        found = found | {"classes": {slug: one for slug, one in found["classes"].items() if slug == asked["class"]}}
    return JsonResponse(found, headers={"Cache-Control": "no-store"})
