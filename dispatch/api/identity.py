"""Middleware: every request has an id, its caller's or a fresh one, which its log lines, audit and answer carry."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from dispatch.services import context

HEADER = "X-Request-ID"


@sync_and_async_middleware
def identified(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Begin the request's context, and tell the id in the answer."""
    if iscoroutinefunction(get_response):

        async def wait(request: HttpRequest) -> HttpResponse:
            made = context.begin(request.headers.get(HEADER))
            return _marked(await get_response(request), made)

        return wait

    def middleware(request: HttpRequest) -> HttpResponse:
        made = context.begin(request.headers.get(HEADER))
        return _marked(get_response(request), made)

    return middleware


def _marked(response: HttpResponse, request_id: str) -> HttpResponse:
    response.headers[HEADER] = request_id
    return response
