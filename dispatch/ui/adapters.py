"""How django-allauth behaves here: nobody signs up alone, secrets of second factors are sealed, words are ours."""

import base64
import hmac
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from cryptography.fernet import Fernet
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from dispatch.models import User
from dispatch.services import access, departments, invitations

TOLD = ("password_changed", "password_set", "password_reset")  #: the only news of allauth that are worth a toast


class ClosedSignup(DefaultAccountAdapter):
    """Accounts are made by operators and invitations, never by signing up; signing in and out needs no message."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": "This e-mail address and password do not belong together.",
        "too_many_login_attempts": "Too many tries with a wrong password. Wait five minutes, then try again.",
        "rate_limited": "Too many tries. Wait a few minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody may sign up by themselves."""
        return False

    def add_message(
        self, request: HttpRequest, level: int, message_template: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Only errors and the news of a changed password are worth a toast."""
        if level >= messages.ERROR or any(told in (message_template or "") for told in TOLD):
            super().add_message(request, level, message_template, *args, **kwargs)

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """The console; for people of a department only, their department's overview."""
        who = access.for_user(cast(User, request.user))
        own = [] if access.everywhere(who) else departments.names(who)
        return f"/t/{own[0]}/" if own else str(super().get_login_redirect_url(request))

    def get_client_ip(self, request: HttpRequest) -> str:
        """The address that tries are counted for; behind a socket file, which knows none, all share one."""
        try:
            return str(super().get_client_ip(request))
        except PermissionDenied:
            return "0.0.0.0"  # noqa: S104  # stands for "unknown", nothing is bound to it


class SealedFactors(DefaultMFAAdapter):
    """Secrets of authenticator apps and recovery codes are encrypted under the installation's pepper."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": "This code is not right. Codes change every 30 seconds.",
    }

    def encrypt(self, text: str) -> str:
        """As it is stored."""
        return _seal().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """As it was."""
        return _seal().decrypt(encrypted_text.encode()).decode()

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        """The name that a new passkey gets when the person types none."""
        return "Passkey"


def _seal() -> Fernet:
    key = hmac.digest(settings.EVENFLOW_PEPPER.encode(), b"second factors", "sha256")
    return Fernet(base64.urlsafe_b64encode(key))


class InvitedOnly(DefaultSocialAccountAdapter):
    """The company's sign-in lets those in who have an account, or an open invitation, under a verified address."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whether the provider vouches for an address that was invited."""
        return bool(_invited(sociallogin))

    def authenticate_by_email(self, sociallogin: Any) -> Any:
        """The account of a verified address. Accounts are made by invitation, never by who claims an address, so that
        allauth's guard against planted accounts, which would wipe the password, has nothing to guard against here."""
        found = super().authenticate_by_email(sociallogin)
        if found:
            EmailAddress.objects.update_or_create(user=found[0], email=found[1].lower(), defaults={"verified": True})
        return found

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        """Make the account with the invited address and give it what was offered."""
        sociallogin.user.email = _invited(sociallogin)
        user = super().save_user(request, sociallogin, form)
        invitations.accept_all(user)
        return user

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        """The person's name as the provider tells it."""
        user: User = super().populate_user(request, sociallogin, data)
        name = data.get("name") or " ".join(filter(None, (data.get("first_name"), data.get("last_name"))))
        user.name = str(name)[: invitations.NAME_LENGTH]
        return user


def _invited(sociallogin: Any) -> str:
    """The verified address of a company sign-in that has an open invitation, or nothing."""
    verified = [address.email.lower() for address in sociallogin.email_addresses if address.verified]
    return next((email for email in verified if invitations.waiting_for(email)), "")
