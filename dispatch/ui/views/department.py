"""`/t/<tenant>/…`: a department's own pages: overview, quota, members, keys, webhooks, usage."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from dispatch import downloads, errors
from dispatch.live import topics
from dispatch.live.topics import Topic
from dispatch.services import access, dead_letters, departments, keys, policy, quota_requests, tenant_limits
from dispatch.ui import pages
from dispatch.ui.views import queue

LIMITS = {
    "max": "Maximum of running tasks",
    "borrow": "Borrows up to",
    "user_max": "Maximum of a user",
    "max_queued": "Waiting tasks",
    "submit_per_minute": "Submits a minute",
}
ASKED = {"nominal": "Quota, slots"} | LIMITS | {"cost_budget": "Cost budget"}
GROUPS = 3
DAYS = (1, 7, 31)
COLUMNS = ("day", "pool", "class", "user", "attempts", "succeeded", "cost", "slot_s")


def show(
    request: HttpRequest, tenant: str, template: str, kind: str = "chrome", status: int = 200, **context: Any
) -> HttpResponse:
    """Render one of the department's pages; NotFound for those to whom the department does not exist."""
    who = pages.person(request)
    tenant_id = access.tenant_id(who, tenant, "read")
    about = Topic(kind, pool=request.GET.get("pool") or None, tenant=tenant)
    frame = {
        "topic": about,
        "cells": topics.read(who, about),
        "caller": who,
        "tenant": tenant,
        "may_operate": access.may(who, "operate", tenant_id),
        "may_admin": access.may(who, "admin", tenant_id),
        "is_operator": access.operates(who),
        **pages.frame_links(request.path, request),
    }
    return render(request, template, frame | context, status=status)


@pages.page
def overview(request: HttpRequest, tenant: str) -> HttpResponse:
    """What we use of what is ours, our oldest waits, our users."""
    who = pages.person(request)
    past = departments.past(who, tenant, request.GET.get("pool") or None)
    groups = dead_letters.list_groups(access.narrow(who, tenant), GROUPS).items
    context: dict[str, Any] = {"past": past, "chart": chart(past, tenant, who), "groups": groups}
    context["stop"] = queue.stop(who, "tenant", policy.get(who, "tenant", tenant))
    if access.may(who, "admin", access.tenant_id(who, tenant, "read")):
        found = keys.list_keys(who, 1000, tenant=tenant).items
        context["keys"] = [key for key in found if key["revoked_at"] is None][:5]
    return show(request, tenant, "department/overview.html", "department", **context)


def chart(past: Mapping[str, Any], tenant: str, who: Any) -> dict[str, Any] | None:
    """The running slots as path data over 100 × 60 units, the quota as its height; None without samples."""
    points = past["points"]
    if not points:
        return None
    nominal = policy.get(who, "tenant", tenant)["nominal"]
    top = max([point["running"] for point in points] + [nominal, 1]) * 1.15
    span = (past["until"] - past["since"]).total_seconds() or 1
    xs = [100 * (point["at"] - past["since"]).total_seconds() / span for point in points]
    ys = [60 - 60 * point["running"] / top for point in points]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    return {
        "line": f"M{line}",
        "area": f"M{xs[0]:.1f} 60L{line}L{xs[-1]:.1f} 60Z",
        "quota": f"M0 {60 - 60 * nominal / top:.1f}H100" if nominal else "",
        "nominal": nominal,
        "most": max(point["running"] for point in points),
    }


@pages.page
def tasks(request: HttpRequest, tenant: str) -> HttpResponse:
    """The list of tasks, looking at this department."""
    access.tenant_id(pages.person(request), tenant, "read")
    return redirect(f"/tasks?tenant={tenant}")


@pages.page
def dead(request: HttpRequest, tenant: str) -> HttpResponse:
    """The dead letters, looking at this department."""
    access.tenant_id(pages.person(request), tenant, "read")
    return redirect(f"/dead?tenant={tenant}")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def quota(request: HttpRequest, tenant: str) -> HttpResponse:
    """Our limits and those inside us; POST saves what was changed, or asks the operators for more."""
    return pages.form_page(request, partial(_save_quota, request, tenant), partial(_show_quota, request, tenant))


def _show_quota(request: HttpRequest, tenant: str, refusal: errors.EvenflowError | None = None) -> HttpResponse:
    who = pages.person(request)
    found = departments.limits(who, tenant)
    own = found["tenant"]
    typed = request.POST if refusal else {}
    problems = {one["field"]: one["message"] for one in getattr(refusal, "errors", [])}
    context = {
        "own": own,
        "limits": [
            {
                "name": name,
                "label": label,
                "value": typed.get(name, _word(own[name])),
                "was": _word(own[name]),
                "ceiling": own["ceilings"].get(name, own[name]),
                "error": problems.get(name, ""),
            }
            for name, label in LIMITS.items()
        ],
        "users": found["users"],
        "classes": _class_limits(who, found["classes"]),
        "asked": ASKED,
        "problem": "" if refusal is None or problems.keys() & LIMITS.keys() else refusal.detail,
        "typed": typed,
        "requests": quota_requests.list_requests(who, tenant=tenant, limit=20).items,
    }
    return show(request, tenant, "department/quota.html", status=refusal.status if refusal else 200, **context)


def _class_limits(who: Any, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {one["class"]: one for one in found}
    none = {"max": None, "ceiling": None, "version": None}
    return [known.get(one["slug"], {"class": one["slug"], **none}) for one in policy.list_(who, "class", 1000).items]


def _save_quota(request: HttpRequest, tenant: str) -> HttpResponse:
    who, form = pages.person(request), request.POST
    reason = form.get("reason", "").strip()
    match form.get("part"):
        case "own":
            typed = {name: form.get(name, "").strip() for name in LIMITS}
            changed = {name: _number(text) for name, text in typed.items() if text != form.get(f"was-{name}", "")}
            if not changed:
                raise errors.Invalid(("reason", "nothing was changed"))
            policy.patch(who, "tenant", tenant, whole(form.get("version")), changed, reason)
            told = "Limits saved"
        case "user" | "class" as kind:
            name = form.get("name", "").strip()
            fields = {"max": _number(form.get("max", "").strip())}
            if kind == "user" and (old := _user(who, tenant, name)):
                fields["weight"] = old["weight"]
            tenant_limits.put(who, tenant, kind, name, fields, _version(form.get("version")), reason)
            told = f"Limit of {kind} {name} saved"
        case "request":
            field = form.get("field", "")
            quota_requests.create(who, tenant, {field: _number(form.get("value", "").strip())}, {}, reason)
            told = "Request sent to the operators"
        case "withdraw":
            quota_requests.withdraw(who, whole(form.get("id")))
            told = "Request withdrawn"
        case _:
            raise errors.Invalid(("part", "is not a part of this page"))
    messages.success(request, told)
    return redirect(f"/t/{tenant}/quota")


def _user(who: Any, tenant: str, name: str) -> dict[str, Any] | None:
    try:
        return tenant_limits.get(who, tenant, "user", name)
    except errors.NotFound:
        return None


def _number(text: str) -> Any:
    """A typed number, None for nothing; other text stays, so that the service can say what is wrong with it."""
    if not text:
        return None
    if re.fullmatch(r"[-+]?\d{1,15}", text):
        return int(text)
    return float(text) if re.fullmatch(r"[-+]?\d{1,15}\.\d{1,9}", text) else text


def whole(text: str | None) -> int:
    """A typed id or version; -1, which nothing has, for anything else."""
    return int(text) if text and re.fullmatch(r"\d{1,18}", text) else -1


def _version(text: str | None) -> int | None:
    return whole(text) if text else None


def _word(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@pages.page
def usage(request: HttpRequest, tenant: str) -> HttpResponse:
    """Cost by day, class and user."""
    days = _days(request)
    rows = departments.usage(pages.person(request), tenant, days)
    context = {
        "rows": rows[:500],
        "cut": len(rows) > 500,
        "days": days,
        "spans": [(f"{one} d", one) for one in DAYS],
        "total": sum(row["cost"] for row in rows),
        "by_day": _sums(rows, "day"),
    }
    return show(request, tenant, "department/usage.html", **context)


@login_required
@require_safe
def usage_csv(request: HttpRequest, tenant: str) -> HttpResponseBase:
    """The same as CSV, in full."""
    try:
        rows = departments.usage(pages.person(request), tenant, _days(request))
    except errors.EvenflowError as error:
        return pages.failure(request, error)
    return downloads.sheet(request, f"usage-{tenant}.csv", COLUMNS, ([row[name] for name in COLUMNS] for row in rows))


def _days(request: HttpRequest) -> int:
    return next((days for days in DAYS if str(days) == request.GET.get("days")), 7)


def _sums(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    found: dict[Any, float] = {}
    for row in rows:
        found[row[name]] = found.get(row[name], 0.0) + row["cost"]
    most = max(found.values(), default=0) or 1
    return [{"key": key, "cost": cost, "bar": f"{100 * cost / most:.1f}%"} for key, cost in found.items()]
