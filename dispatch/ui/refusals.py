"""Middleware that gives a person a page where Django answers with nothing: a form's address opened by hand (405)."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def explained(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The middleware; only empty answers are filled, so those below /api/ stay problem documents."""

    def handle(request: HttpRequest) -> HttpResponse:
        given = get_response(request)
        if given.status_code != 405 or request.method != "GET" or request.path.startswith("/api/") or given.content:
            return given
        page = render(request, "405.html", status=405)
        page["Allow"] = given["Allow"]
        return page

    return handle
