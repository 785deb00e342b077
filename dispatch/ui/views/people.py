"""`/people` for operators and `/t/<tenant>/members`: who may do what, and invitations to more of them."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from dispatch import errors
from dispatch.services import access, invitations, people
from dispatch.ui import mails, pages
from dispatch.ui.views import department

PAGE = 100
GLOBAL = ("operator", "auditor")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def everybody(request: HttpRequest) -> HttpResponse:
    """All people; POST changes one, or invites."""
    return pages.form_page(request, partial(_act, request), partial(_show, request))


def _show(request: HttpRequest, refusal: errors.EvenflowError | None = None, **context: Any) -> HttpResponse:
    who = pages.person(request)
    found = people.list_people(who, PAGE, request.GET.get("after") or None, request.GET.get("find", "").strip())
    may = access.everywhere(who) and "admin" in who.scopes
    context |= {
        "people": found.items,
        "older": found.next_cursor,
        "find": request.GET.get("find", ""),
        "may_admin": may,
        "invitations": invitations.list_open(who) if may else [],
        "roles": GLOBAL,
        **_told(refusal, request),
    }
    response = pages.show(request, "ui/people.html", **context)
    response.status_code = refusal.status if refusal else 200
    return response


def _told(refusal: errors.EvenflowError | None, request: HttpRequest) -> dict[str, Any]:
    problems = {one["field"]: one["message"] for one in getattr(refusal, "errors", [])}
    general = "" if refusal is None or problems.keys() & {"email", "role"} else refusal.detail
    return {"problems": problems, "problem": general, "typed": request.POST if refusal else {}}


def _act(request: HttpRequest) -> HttpResponse:
    who, form = pages.person(request), request.POST
    person, reason = department.whole(form.get("id")), form.get("reason", "").strip()
    match form.get("do"):
        case "role":
            changed = people.set_role(who, person, form.get("role", ""), reason)
            told = f"{changed['email']} is {changed['role'] or 'without a global role'} now"
        case "deactivate" | "activate" as verb:
            changed = people.set_active(who, person, verb == "activate", reason)
            told = f"{changed['email']} is {'active again' if changed['active'] else 'deactivated and signed out'}"
        case "invite":
            made = invitations.invite(who, form.get("email", "").strip(), form.get("role", ""))
            return _show(request, made=_send(request, made))
        case "withdraw":
            told = f"Invitation of {invitations.revoke(who, person)} withdrawn"
        case _:
            raise errors.Invalid(("do", "is not a command of this page"))
    messages.success(request, told)
    return redirect("/people")


def _send(request: HttpRequest, made: dict[str, Any]) -> dict[str, Any]:
    """Mail the link; where no mail is sent it is shown, this once, to who invites."""
    link = request.build_absolute_uri(f"/invitation/{made['token']}")
    told = {"by": made["created_by"], "role": made["role"], "tenant": made["tenant"], "until": made["expires_at"]}
    sent = mails.send(made["email"], "You are invited", "account/email/invitation.txt", link=link, **told)
    return made | {"sent": sent, "link": "" if sent else link}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def members(request: HttpRequest, tenant: str) -> HttpResponse:
    """The members of a department; POST changes one, or invites."""
    return pages.form_page(request, partial(_act_member, request, tenant), partial(_show_members, request, tenant))


def _show_members(
    request: HttpRequest, tenant: str, refusal: errors.EvenflowError | None = None, **context: Any
) -> HttpResponse:
    who = pages.person(request)
    may = access.may(who, "admin", access.tenant_id(who, tenant, "read"))
    context |= {
        "members": people.list_members(who, tenant),
        "invitations": invitations.list_open(who, tenant) if may else [],
        "roles": people.MEMBER_ROLES,
        **_told(refusal, request),
    }
    status = refusal.status if refusal else 200
    return department.show(request, tenant, "department/members.html", status=status, **context)


def _act_member(request: HttpRequest, tenant: str) -> HttpResponse:
    who, form = pages.person(request), request.POST
    person, view = department.whole(form.get("id")), form.get("view_payloads") == "on"
    match form.get("do"):
        case "set":
            changed = people.set_member(who, tenant, person, form.get("role", ""), view)
            told = f"{changed['email']} is {changed['role']} now"
        case "remove":
            told = f"{people.remove_member(who, tenant, person)['email']} is no member any more"
        case "invite":
            made = invitations.invite(who, form.get("email", "").strip(), form.get("role", ""), tenant, view)
            return _show_members(request, tenant, made=_send(request, made))
        case "withdraw":
            told = f"Invitation of {invitations.revoke(who, person, tenant)} withdrawn"
        case _:
            raise errors.Invalid(("do", "is not a command of this page"))
    messages.success(request, told)
    left = form.get("do") == "remove" and person == who.id
    return redirect("/account" if left else f"/t/{tenant}/members")
