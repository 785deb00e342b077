"""`/requests`: what departments ask for, with the numbers, to be approved or declined."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from dispatch import errors
from dispatch.services import access, departments, quota_requests
from dispatch.ui import pages
from dispatch.ui.views import department

PAGE = 100


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def inbox(request: HttpRequest) -> HttpResponse:
    """Open requests first; POST answers one."""
    return pages.form_page(request, partial(_answer, request), partial(_show, request))


def _show(request: HttpRequest, refusal: errors.EvenflowError | None = None) -> HttpResponse:
    who = pages.person(request)
    access.require_everywhere(who, "read")
    waiting = quota_requests.list_requests(who, "open", limit=PAGE).items
    answered = [one for one in quota_requests.list_requests(who, limit=PAGE).items if one["state"] != "open"]
    response = pages.show(
        request,
        "ui/requests.html",
        waiting=[_judged(who, one["id"]) for one in waiting],
        answered=answered[:30],
        labels=department.ASKED,
        problem=refusal.detail if refusal else "",
        answering=department.whole(request.POST.get("id")) if refusal else 0,
    )
    response.status_code = refusal.status if refusal else 200
    return response


def _judged(who: Any, request_id: int) -> dict[str, Any]:
    """A request beside the limits and the use of now, and what the policy says to it."""
    found = quota_requests.get(who, request_id)
    now = found["current"]
    lines = [
        {"label": department.ASKED.get(name, name), "now": now.get(name), "wanted": value}
        for name, value in found["changes"].items()
    ]
    lines += [
        {"label": f"Maximum in class {name}", "now": now["classes"].get(name), "wanted": value}
        for name, value in found["classes"].items()
    ]
    verdict = quota_requests.preview(who, request_id) if access.operates(who) else {"errors": [], "warnings": []}
    use = departments.overview(who, found["tenant"])
    return found | {"lines": lines, "use": use, "errors": verdict["errors"], "warnings": verdict["warnings"]}


def _answer(request: HttpRequest) -> HttpResponse:
    who, form = pages.person(request), request.POST
    request_id, note = department.whole(form.get("id")), form.get("note", "").strip()
    if form.get("do") == "approve":
        found = quota_requests.approve(who, request_id, department.whole(form.get("version")), note)
        told = f"Approved: {found['tenant']} has it from the next cycle"
    else:
        found = quota_requests.refuse(who, request_id, note)
        told = f"Declined, with your reason for {found['tenant']}"
    messages.success(request, told)
    return redirect("/requests")
