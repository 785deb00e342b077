"""`/keys` for operators and `/t/<tenant>/keys`: make, rotate with overlap and revoke API keys; each is shown once."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from dispatch import errors
from dispatch.services import access, clock, keys, policy
from dispatch.ui import pages
from dispatch.ui.views import department

PAGE = 200
SCOPES = {
    "submit": "put tasks in, cancel them",
    "work": "claim and finish tasks",
    "read": "see tasks, policy and numbers",
    "operate": "edit, requeue, revoke, pause",
    "admin": "make and revoke keys",
}
#: days until a key ends → word
ENDS = {"": "never", "30": "in 30 days", "90": "in 90 days", "365": "in a year"}
OVERLAPS = {"0": "at once", "3600": "after 1 hour", "86400": "after 1 day", "604800": "after 7 days"}
SOON = timedelta(days=14)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def fleet(request: HttpRequest) -> HttpResponse:
    """All keys that the person manages."""
    return _page(request, None)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest, tenant: str) -> HttpResponse:
    """The keys of a department."""
    return _page(request, tenant)


def _page(request: HttpRequest, tenant: str | None) -> HttpResponse:
    return pages.form_page(request, partial(_act, request, tenant), partial(_show, request, tenant))


def _show(
    request: HttpRequest, tenant: str | None, refusal: errors.EvenflowError | None = None, **context: Any
) -> HttpResponse:
    who = pages.person(request)
    if tenant is not None:
        access.tenant_id(who, tenant, "admin")
    else:
        access.require_everywhere(who, "admin")
    found = keys.list_keys(who, PAGE, request.GET.get("after") or None, tenant=tenant)
    problems = {one["field"]: one["message"] for one in getattr(refusal, "errors", [])}
    context |= {
        "rows": [_row(key) for key in sorted(found.items, key=lambda key: (key["revoked_at"] is not None, -key["id"]))],
        "older": found.next_cursor,
        "scopes": [(name, text) for name, text in SCOPES.items() if tenant is None or name in keys.TENANT_SCOPES],
        "ends": ENDS,
        "overlaps": OVERLAPS,
        "pools": [pool["slug"] for pool in policy.list_(who, "pool", 1000).items],
        "tenants": [one["slug"] for one in policy.list_(who, "tenant", 1000).items] if tenant is None else [],
        "problems": problems,
        "problem": "" if refusal is None or problems.keys() & {"name", "scopes"} else refusal.detail,
        "typed": request.POST if refusal else {},
        "chosen": request.POST.getlist("scopes") if refusal else [],
        "place": request.path,
    }
    status = refusal.status if refusal else 200
    if tenant is not None:
        return department.show(request, tenant, "department/keys.html", status=status, **context)
    response = pages.show(request, "ui/keys.html", **context)
    response.status_code = status
    return response


def _row(key: dict[str, Any]) -> dict[str, Any]:
    """A key with its state in words: live, ends soon, over, revoked."""
    now, ends = clock.now(), key["expires_at"]
    if key["revoked_at"] is not None:
        state = ("cancelled", "idle", "revoked")
    elif ends is not None and ends <= now:
        state = ("cancelled", "idle", "over")
    elif ends is not None and ends - now < SOON:
        state = ("watch", "watch", f"ends in {_left(ends - now)}")
    else:
        state = ("ok", "ok", "live")
    return key | dict(zip(("icon", "tone", "word"), state, strict=True)) | {"live": state[2] not in ("revoked", "over")}


def _left(left: timedelta) -> str:
    hours = int(left.total_seconds() // 3600)
    return f"{hours // 24} d" if hours >= 48 else f"{hours} h" if hours else f"{int(left.total_seconds() // 60)} m"


def _act(request: HttpRequest, tenant: str | None) -> HttpResponse:
    who, form = pages.person(request), request.POST
    key_id = department.whole(form.get("id"))
    if tenant is not None:
        _belongs(who, tenant, key_id, form.get("do"))
    match form.get("do"):
        case "create":
            made = keys.create_key(
                who,
                name=form.get("name", "").strip(),
                scopes=form.getlist("scopes"),
                tenant=tenant or form.get("tenant") or None,
                pool=form.get("pool") or None,
                expires_at=_end(form.get("ends", "")),
            )
            return _show(request, tenant, made=made)
        case "rotate":
            overlap = form.get("overlap", "0")
            made = keys.rotate_key(who, key_id, float(overlap) if overlap in OVERLAPS else 0.0)
            return _show(request, tenant, made=made)
        case "revoke":
            keys.revoke_key(who, key_id)
            messages.success(request, "Key revoked: it ends everywhere within 5 seconds")
            return redirect(request.path)
    raise errors.Invalid(("do", "is not a command of this page"))


def _belongs(who: Any, tenant: str, key_id: int, verb: str | None) -> None:
    """On a department's page only its own keys are steered, also by those who manage others."""
    access.tenant_id(who, tenant, "admin")
    if verb in ("rotate", "revoke") and not any(
        key["id"] == key_id for key in keys.list_keys(who, 1000, tenant=tenant).items
    ):
        raise errors.NotFound("There is no such key.")


def _end(days: str) -> datetime | None:
    return clock.now() + timedelta(days=int(days)) if days in ENDS and days else None
