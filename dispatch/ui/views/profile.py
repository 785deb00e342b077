"""`/account`: name, time zone, what comes by e-mail, how to sign in, and where one is signed in."""

from typing import Any, cast
from zoneinfo import available_timezones

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from dispatch.models import Membership, User
from dispatch.services import people, sockets
from dispatch.ui import forms, mails
from dispatch.ui.views.account import framed

BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl", "python")  #: the first that a browser names
NAMES = {"Edg": "Edge", "OPR": "Opera", "python": "Python"}
SYSTEMS = ("iPhone", "iPad", "Android", "Windows", "Mac OS", "Linux")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """The page, and its form."""
    user = cast(User, request.user)
    form = forms.Profile(request.POST or None, instance=User.objects.get(pk=user.pk))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Profile saved")
        return redirect("/account")
    context: dict[str, Any] = {
        "form": form,
        "zones": sorted(available_timezones()),
        "memberships": Membership.objects.filter(user=user, tenant__archived_at=None).select_related("tenant"),
        "sessions": [_session(request, found) for found in UserSession.objects.purge_and_list(user)],
        "mail": mails.configured(),
        "company": settings.OIDC[0]["name"] if settings.OIDC else "",
        "connections": SocialAccount.objects.filter(user=user),
        **_factors(user),
    }
    return framed(request, "account/profile.html", context, 400 if form.errors else 200)


def _factors(user: User) -> dict[str, Any]:
    found = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    kinds = Authenticator.Type
    codes = next((one for one in found if one.type == kinds.RECOVERY_CODES), None)
    return {
        "totp": next((one for one in found if one.type == kinds.TOTP), None),
        "passkeys": [one.wrap() for one in found if one.type == kinds.WEBAUTHN],
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else None,
    }


def _session(request: HttpRequest, found: Any) -> dict[str, Any]:
    return {
        "id": found.pk,
        "browser": browser(found.user_agent),
        "ip": found.ip,
        "started": found.created_at,
        "seen": found.last_seen_at,
        "here": found.session_key == request.session.session_key,
    }


def browser(agent: str) -> str:
    """`Firefox on Linux`, as far as a browser tells."""
    name = next((one for one in BROWSERS if one in agent), "")
    system = next((one for one in SYSTEMS if one in agent), "")
    words = [NAMES.get(name, name) or "A browser", f"on {system}" if system else ""]
    return " ".join(filter(None, words))


@login_required
@require_POST
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    """Sign out somewhere else; the sockets of that session close at once."""
    user = cast(User, request.user)
    found = UserSession.objects.filter(user=user, pk=min(session_id, 2**31 - 1)).first()
    if found is None:
        raise Http404
    key = found.session_key
    if key == request.session.session_key:
        return redirect("/logout")
    found.end()
    sockets.close(user.pk, key)
    messages.success(request, "That session has ended")
    return redirect("/account")


@login_required
@require_POST
def end_others(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere else."""
    people.end_sessions(cast(User, request.user), keep=request.session.session_key)
    messages.success(request, "All other sessions have ended")
    return redirect("/account")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def disconnect(request: HttpRequest) -> HttpResponse:
    """Cut the tie to the company's sign-in, where a password or a passkey is left to come in by."""
    user = cast(User, request.user)
    if request.method == "POST":
        left = user.has_usable_password() or Authenticator.objects.filter(user=user, type="webauthn").exists()
        if left:
            SocialAccount.objects.filter(user=user).delete()
            messages.success(request, "The company sign-in is disconnected")
        else:
            messages.error(request, "Set a password first, so that a way in is left.")
    return redirect("/account")
