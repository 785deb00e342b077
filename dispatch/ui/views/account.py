"""Signing in and out, passwords and second factors: allauth's views with our templates, and sockets that follow."""

from typing import Any, cast

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkeys
from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dispatch.errors import EvenflowError
from dispatch.models import User
from dispatch.services import people, sockets
from dispatch.ui import mails, pages


def framed(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """An account page in the console's frame, live where the person may read; people without a role see it too."""
    try:
        response = pages.show(request, template, **context)
    except EvenflowError:
        response = render(request, template, pages.frame_links(request.path) | context)
    response.status_code = status
    return response


class Framed(LoginRequiredMixin):
    """A page inside the console's frame."""

    request: HttpRequest

    def render_to_response(self, context: dict[str, Any], **options: Any) -> HttpResponse:
        """The view's template with the frame around it."""
        [template] = self.get_template_names()  # type: ignore[attr-defined]  # of the view that this is mixed into
        return framed(self.request, template, context)


class SignIn(account.LoginView):
    """`/login`: by passkey, by the company's sign-in where there is one, or by password."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """The company's sign-in, where one is configured."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"company": settings.OIDC[0] if settings.OIDC else None}


class SignOut(account.LogoutView):
    """`/logout`: a question on GET; the person's open sockets of this session close with it."""

    template_name = "account/logout.html"

    def logout(self) -> None:
        """Sign out and tell the sockets, here and in other processes."""
        user, session = self.request.user.pk, self.request.session.session_key
        super().logout()
        if user:
            sockets.close(user, session)


class ChangePassword(Framed, account.PasswordChangeView):
    """`/account/password`: the banner about the initial password goes away once it is changed."""

    template_name = "account/password_change.html"
    success_url = "/"

    def form_valid(self, form: Any) -> HttpResponse:
        """Save and stay signed in; every other session ends."""
        response: HttpResponse = super().form_valid(form)
        _changed(cast(User, self.request.user), self.request.session.session_key)
        return response


class SetPassword(Framed, account.PasswordSetView):
    """`/account/password/set`: a first password."""

    success_url = "/account"


class ResetPassword(account.PasswordResetView):
    """`/account/password/reset`: a link by e-mail; the page says the same whether the account exists or not."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Whether mails reach anybody."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"mail": mails.configured()}


class NewPassword(account.PasswordResetFromKeyView):
    """`/account/password/reset/<key>`: the link of the mail; once used, every session of the person ends."""

    def form_valid(self, form: Any) -> HttpResponse:
        """Save the new password."""
        response: HttpResponse = super().form_valid(form)
        _changed(self.reset_user, None)
        return response


def _changed(user: User, keep: str | None) -> None:
    """A password that was chosen by its owner ends every session but the one that chose it."""
    User.objects.filter(pk=user.pk).update(initial_password=False)
    people.end_sessions(user, keep=keep)


class ActivateTotp(Framed, totp.ActivateTOTPView):
    """`/account/totp/activate`."""


class DeactivateTotp(Framed, totp.DeactivateTOTPView):
    """`/account/totp/deactivate`."""


class ViewCodes(Framed, codes.ViewRecoveryCodesView):
    """`/account/codes`."""


class GenerateCodes(Framed, codes.GenerateRecoveryCodesView):
    """`/account/codes/generate`."""


class AddPasskey(Framed, passkeys.AddWebAuthnView):
    """`/account/passkeys/add`."""


class EditPasskey(Framed, passkeys.EditWebAuthnView):
    """`/account/passkeys/<id>/edit`."""


class RemovePasskey(Framed, passkeys.RemoveWebAuthnView):
    """`/account/passkeys/<id>/remove`."""


class Reauthenticate(LoginRequiredMixin, account.ReauthenticateView):
    """`/account/confirm`: the password again before something that matters."""


class ReauthenticateFactor(factors.ReauthenticateView):
    """`/account/confirm/code`."""


class ReauthenticatePasskey(passkeys.ReauthenticateWebAuthnView):
    """`/account/confirm/passkey`."""
