"""`/t/<tenant>/webhooks`: addresses of a department that are told when its tasks end; the log of what was sent."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from dispatch import errors
from dispatch.core.webhooks import EVENTS
from dispatch.services import access, webhooks
from dispatch.ui import pages
from dispatch.ui.views import department

DELIVERIES = 20
VERBS = [
    ("test", "Send a test"),
    ("rotate", "Rotate secret"),
    ("enable", "Switch on"),
    ("disable", "Switch off"),
    ("delete", "Delete"),
]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest, tenant: str) -> HttpResponse:
    """The page, and its commands."""
    return pages.form_page(request, partial(_act, request, tenant), partial(_show, request, tenant))


def _show(
    request: HttpRequest, tenant: str, refusal: errors.EvenflowError | None = None, **context: Any
) -> HttpResponse:
    who = pages.person(request)
    access.tenant_id(who, tenant, "operate")
    problems = {one["field"]: one["message"] for one in getattr(refusal, "errors", [])}
    context |= {
        "hooks": [_hook(who, found) for found in webhooks.list_webhooks(who, tenant, 1000).items],
        "kinds": EVENTS,
        "verbs": VERBS,
        "problems": problems,
        "problem": "" if refusal is None or problems.keys() & {"name", "url", "events"} else refusal.detail,
        "typed": request.POST if refusal else {},
        "chosen": request.POST.getlist("events") if refusal else [],
    }
    status = refusal.status if refusal else 200
    return department.show(request, tenant, "department/webhooks.html", status=status, **context)


def _hook(who: Any, found: dict[str, Any]) -> dict[str, Any]:
    return found | {"deliveries": webhooks.list_deliveries(who, found["id"], limit=DELIVERIES).items}


def _act(request: HttpRequest, tenant: str) -> HttpResponse:
    who, form = pages.person(request), request.POST
    hook_id = department.whole(form.get("id"))
    access.tenant_id(who, tenant, "operate")
    if form.get("do") == "create":
        fields = {"name": form.get("name", "").strip(), "url": form.get("url", "").strip()}
        made = webhooks.create_webhook(who, **fields, events=form.getlist("events"), tenant=tenant)
        return _show(request, tenant, made=made)
    if not any(found["id"] == hook_id for found in webhooks.list_webhooks(who, tenant, 1000).items):
        raise errors.NotFound("There is no such webhook.")
    match form.get("do"):
        case "rotate":
            return _show(request, tenant, made=webhooks.rotate_webhook(who, hook_id))
        case "test":
            webhooks.test_webhook(who, hook_id)
            told = "A test message is on its way"
        case "enable" | "disable" as verb:
            webhooks.patch_webhook(who, hook_id, {"enabled": verb == "enable"})
            told = "Webhook switched on" if verb == "enable" else "Webhook switched off"
        case "delete":
            webhooks.delete_webhook(who, hook_id)
            told = "Webhook deleted"
        case "redeliver":
            webhooks.redeliver(who, hook_id, department.whole(form.get("delivery")))
            told = "The message is sent again"
        case _:
            raise errors.Invalid(("do", "is not a command of this page"))
    messages.success(request, told)
    return redirect(request.path)
