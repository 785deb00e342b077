"""`/invitation/<token>`: what an invited person sees, with or without an account."""

from typing import Any

from allauth.account.internal.flows.login import record_authentication
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dispatch import errors
from dispatch.models import User
from dispatch.services import invitations
from dispatch.ui import forms


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Accept as who is signed in, or make an account; the link works once."""
    try:
        offer = invitations.find(token)
        person = request.user if isinstance(request.user, User) else None
        if request.method == "POST":
            return _accept(request, token, offer, person)
    except errors.EvenflowError as refusal:
        return render(request, "account/invitation_gone.html", {"text": refusal.detail}, status=refusal.status)
    return _show(request, offer, person, None if offer["known"] else forms.Welcome())


def _show(request: HttpRequest, offer: dict[str, Any], person: User | None, form: Any) -> HttpResponse:
    other = person is not None and person.email.lower() != offer["email"].lower()
    context = {"offer": offer, "person": person, "other": other, "form": form, "company": settings.OIDC}
    return render(request, "account/invitation.html", context, status=400 if form and form.errors else 200)


def _accept(request: HttpRequest, token: str, offer: dict[str, Any], person: User | None) -> HttpResponse:
    if person is not None:
        invitations.accept(token, person)
        return _welcome(request, offer)
    form = forms.Welcome(request.POST)
    if offer["known"] or not form.is_valid():
        return _show(request, offer, None, None if offer["known"] else form)
    try:
        made = invitations.accept_new(token, form.cleaned_data["name"], form.cleaned_data["password1"])
    except errors.Invalid as refusal:
        for problem in refusal.errors:
            form.add_error(problem["field"], problem["message"])
        return _show(request, offer, None, form)
    login(request, made, "django.contrib.auth.backends.ModelBackend")
    record_authentication(request, made, "password", email=made.email)
    return _welcome(request, offer)


def _welcome(request: HttpRequest, offer: dict[str, Any]) -> HttpResponse:
    messages.success(request, "Welcome. You are in.")
    return redirect(f"/t/{offer['tenant']}/" if offer["tenant"] else "/")
