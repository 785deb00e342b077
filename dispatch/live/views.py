"""`/live/<topic>.json`: the same cells by polling, for browsers without a websocket."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from dispatch import errors
from dispatch.live import cells, hub, snapshots
from dispatch.models import User
from dispatch.services import access


def poll(request: HttpRequest, topic: str) -> HttpResponse:
    """All cells of a topic; 401 when signed out, 404 for an unknown topic."""
    if not isinstance(request.user, User):
        return JsonResponse({}, status=401)
    if topic not in cells.PARTS:
        return JsonResponse({}, status=404)
    try:
        found = cells.cells(topic, snapshots.get(access.for_user(request.user), None))
    except errors.EvenflowError as error:
        return JsonResponse({"detail": error.detail}, status=error.status)
    answer = {"topic": topic, "full": True, "at": found["at"], "now": hub.now_ms(), "changes": found}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})
