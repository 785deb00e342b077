"""`/live/<topic>.json`: the same cells by polling, for browsers without a websocket."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from dispatch import errors
from dispatch.live import hub, topics
from dispatch.models import User
from dispatch.services import access


def poll(request: HttpRequest, name: str) -> HttpResponse:
    """All cells of a topic; 401 when signed out, 404 for an unknown topic."""
    if not isinstance(request.user, User):
        return JsonResponse({}, status=401)
    topic = topics.parse(name, request.GET.get("pool"), request.GET.get("tenant"))
    if topic is None:
        return JsonResponse({}, status=404)
    try:
        found = topics.read(access.for_user(request.user), topic)
    except errors.EvenflowError as error:
        return JsonResponse({"detail": error.detail}, status=error.status)
    answer = {"topic": topic.name, "full": True, "at": found["at"], "now": hub.now_ms(), "changes": found}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})
