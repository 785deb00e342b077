"""What all pages share: who asks, the navigation, rendering with live cells, answers to commands.

A view gets its `Caller` from `caller(request)`; rights are checked by the services alone. `page` turns the services'
refusals into pages of their own, `command` runs a POST and answers with a redirect, or to htmx with an event.
`?pool=` and `?tenant=` choose what a page looks at and go along through the navigation: with a tenant, `caller` is
narrowed to it (`person` never is: the fleet and the policy are everybody's).
"""

import functools
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from dispatch import errors
from dispatch.live import snapshots, topics
from dispatch.live.topics import Topic
from dispatch.models import User
from dispatch.services import access, departments
from dispatch.services.messages import Caller
from dispatch.ui import department

NAVIGATION = [
    (
        "Watch",
        [
            ("Overview", "/", "overview", ""),
            ("Queues", "/queues", "queues", ""),
            ("Tasks", "/tasks", "tasks", ""),
            ("Workers", "/workers", "workers", ""),
            ("Alerts", "/alerts", "bell", "alerts"),
        ],
    ),
    (
        "Act",
        [
            ("Fairness", "/fairness", "fairness", ""),
            ("Dead letters", "/dead", "dead", "dead"),
            ("Bulk jobs", "/bulk", "stack", ""),
        ],
    ),
    (
        "Govern",
        [
            ("Capabilities", "/capabilities", "capabilities", ""),
            ("People", "/people", "people", ""),
            ("API keys", "/keys", "key", ""),
            ("Quota requests", "/requests", "mail", ""),
            ("Audit", "/audit", "audit", ""),
            ("System", "/system", "system", ""),
        ],
    ),
]
#: pages that a shortcut opens, by the letter after g
LETTERS = {
    "/": "o",
    "/queues": "q",
    "/tasks": "t",
    "/workers": "w",
    "/alerts": "a",
    "/fairness": "f",
    "/dead": "d",
    "/bulk": "b",
    "/capabilities": "c",
    "/reports": "r",
    "/audit": "u",
    "/system": "s",
}
TABS = {"/": "Overview", "/queues": "Queues", "/dead": "Dead", "/workers": "Workers"}

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]
Told = tuple[str, dict[str, Any]]  #: the sentence for the toast, details for htmx


def person(request: HttpRequest) -> Caller:
    """The signed-in person as the services know them."""
    found = getattr(request, "_person", None)
    if found is None:
        found = access.for_user(cast(User, request.user))
        request._person = found  # type: ignore[attr-defined]
    return cast(Caller, found)


def caller(request: HttpRequest) -> Caller:
    """The person, narrowed to the tenant that the page looks at; commands are never narrowed."""
    narrow = request.GET.get("tenant") if request.method in ("GET", "HEAD") else None
    return access.narrow(person(request), narrow)


def may(request: HttpRequest, *scopes: str) -> bool:
    """Whether a button for one of these scopes is worth showing; the services decide."""
    return any(access.may(person(request), scope) for scope in scopes)


def topic(request: HttpRequest, name: str) -> Topic:
    """A topic as this page looks at it: its pool and tenant are those of the address."""
    found = topics.parse(name, request.GET.get("pool"), request.GET.get("tenant"))
    if found is None:
        raise Http404
    return found


def numbers(request: HttpRequest) -> Mapping[str, Any]:
    """The shared snapshot as this person may see it."""
    return topics.numbers(person(request), topic(request, "chrome"))


def page(view: View[P]) -> View[P]:
    """A page for signed-in people; refusals of the services become error pages."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except errors.EvenflowError as error:
            return failure(request, error)

    return cast(View[P], require_safe(login_required(guarded)))


def form_page(request: HttpRequest, act: Callable[[], HttpResponse], show: Callable[..., HttpResponse]) -> HttpResponse:
    """A page that is its own form: GET shows it, POST acts; what cannot be taken is told on the page shown again."""
    try:
        if request.method != "POST":
            return show()
        try:
            return act()
        except (errors.Invalid, errors.Conflict, errors.VersionConflict) as refusal:
            return show(refusal=refusal)
    except errors.EvenflowError as refusal:
        return failure(request, refusal)


def command(view: Callable[Concatenate[HttpRequest, P], Told]) -> View[P]:
    """A POST that returns the sentence for the toast and details for htmx; refusals become messages, never pages."""

    @functools.wraps(view)
    def answered(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            text, detail = view(request, *args, **kwargs)
        except errors.EvenflowError as error:
            return told(request, error.detail, {}, error)
        snapshots.expire()
        return told(request, text, detail)

    return cast(View[P], require_POST(login_required(answered)))


def told(
    request: HttpRequest, text: str, extra: dict[str, Any], refusal: errors.EvenflowError | None = None
) -> HttpResponse:
    """The answer to a command: an event for htmx, else a redirect with a message."""
    if request.headers.get("HX-Request"):
        response = HttpResponse(status=refusal.status if refusal else 204)
        detail: dict[str, Any] = {"text": text, **extra}
        if refusal:
            detail |= {"slug": refusal.slug, "errors": getattr(refusal, "errors", [])}
            detail |= {"current": refusal.extra.get("current")}
        return trigger_client_event(response, "refused" if refusal else "done", detail)
    messages.add_message(request, messages.ERROR if refusal else messages.SUCCESS, text)
    back = request.headers.get("Referer", "")
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure())
    return redirect(back if safe else "/")


def show(request: HttpRequest, template: str, name: str | None = None, /, **context: Any) -> HttpResponse:
    """Render a page inside the frame; its cells are those of the topic `name` and stay live."""
    who, about = person(request), topic(request, name or "chrome")
    shared = topics.numbers(who, about)
    frame = {
        "topic": about,
        "cells": topics.read(who, about),
        "may_operate": "operate" in who.scopes,
        "caller": who,
        "views": views(request, shared),
        **frame_links(request.path, request),
    }
    return render(request, template, frame | context)


def views(request: HttpRequest, shared: Mapping[str, Any]) -> dict[str, Any]:
    """What the switchers offer: the tenants that exist for this person, and the pools."""
    who, about = person(request), topic(request, "chrome")
    full = topics.numbers(who, Topic("chrome", pool=about.pool)) if about.tenant else shared
    return {
        "tenant": about.tenant or "",
        "tenants": [row["slug"] for row in full["tenants"]],
        "everywhere": access.everywhere(who),
        "pool": shared["pool"],
        "pools": shared.get("pools", []),
        "fleet": access.everywhere(caller(request)),
    }


def frame_links(path: str, request: HttpRequest | None = None) -> dict[str, Any]:
    """Navigation and tab bar with the current page marked; `keep` is the pool and tenant that links take along."""
    if request is not None and (inside := _department(path, request)):
        who = person(request)
        return department.links(inside, path, access.everywhere(who), departments.names(who))
    chosen = [(name, value) for name in ("pool", "tenant") if request and (value := request.GET.get(name))]
    keep = f"?{urlencode(chosen)}" if chosen else ""
    links = {
        href: {"name": name, "href": href + keep, "icon": icon, "badge": badge, "here": _here(path, href)}
        | {"letter": LETTERS.get(href, "")}
        for _, entries in NAVIGATION
        for name, href, icon, badge in entries
    }
    return {
        "keep": keep,
        "navigation": [(group, [links[href] for _, href, _, _ in entries]) for group, entries in NAVIGATION],
        "tabs": [links[href] | {"name": short} for href, short in TABS.items()],
        "more": [link for href, link in links.items() if href not in TABS],
    }


def _department(path: str, request: HttpRequest) -> str:
    """The department whose pages these are: the one in the address; for its own people also the one looked at."""
    if found := department.in_path(path):
        return found
    who = person(request)
    if access.everywhere(who) or not who.memberships:
        return ""
    own = departments.names(who)
    looked_at = request.GET.get("tenant", "")
    return looked_at if looked_at in own else next(iter(own), "")


def _here(path: str, href: str) -> bool:
    return path == href if href == "/" else path == href or path.startswith(f"{href}/")


def failure(request: HttpRequest, error: errors.EvenflowError) -> HttpResponse:
    """An error page: what failed, and the number to quote."""
    context = {"error": error, "request_number": uuid.uuid4().hex[:8], **frame_links(request.path)}
    return render(request, "ui/failure.html", context, status=error.status)
