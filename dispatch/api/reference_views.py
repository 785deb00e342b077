"""`/docs`, the API's reference for people, and `/llms.txt`, the same facts for language models. No login, no scripts.

Both are made of the served OpenAPI document, so they cannot tell anything else than it does.
"""

import functools
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from dispatch import errors
from dispatch.api import reference


def api() -> NinjaAPI:
    """The API that is told of (urls.py imports this module)."""
    from dispatch.api.urls import api

    return api


@functools.cache
def groups() -> list[reference.Group]:
    """All calls; the document does not change while the process lives."""
    return reference.read(api().get_openapi_schema(path_prefix="/api/v1/"))


def refusals() -> list[dict[str, Any]]:
    """Every problem slug with its status and title."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    told = {kind.slug: kind for kind in kinds if issubclass(kind, errors.EvenflowError)}
    rows = [{"slug": slug, "status": kind.status, "title": kind.title} for slug, kind in told.items()]
    return sorted(rows, key=lambda row: (row["status"], row["slug"]))


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All calls on a page; `?q=` keeps those that hold all of its words."""
    asked = request.GET.get("q", "")[:100]
    words = asked.lower().split()
    found = [
        {"name": group.name, "text": group.text, "calls": [call for call in group.calls if _fits(call, words)]}
        for group in groups()
    ]
    shown = [group for group in found if group["calls"]]
    context = {"groups": groups(), "found": shown, "asked": asked, "refusals": refusals()}
    return render(request, "reference/index.html", context)


def _fits(call: reference.Call, words: list[str]) -> bool:
    text = f"{call.id} {call.method} {call.path} {call.text} {call.group}".lower()
    return all(word in text for word in words)


@require_safe
def operation(request: HttpRequest, name: str) -> HttpResponse:
    """One call."""
    for group in groups():
        for call in group.calls:
            if call.id == name:
                return render(request, "reference/call.html", {"groups": groups(), "call": call})
    raise Http404


@require_safe
def llms(request: HttpRequest) -> HttpResponse:
    """What a language model has to know to use this server, in one short text."""
    base = f"{request.scheme}://{request.get_host()}"
    context = {"groups": groups(), "refusals": refusals(), "base": base}
    return render(request, "reference/llms.txt", context, content_type="text/plain; charset=utf-8")
