"""How django-allauth behaves here."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):
    """Accounts are made by operators and invitations, never by signing up; signing in and out needs no message."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": "This e-mail address and password do not belong together.",
        "too_many_login_attempts": "Too many tries with a wrong password. Wait five minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody may sign up by themselves."""
        return False

    def add_message(self, request: HttpRequest, level: int, message_template: str, *args: Any, **kwargs: Any) -> None:
        """Only the news of a changed password is worth a toast."""
        if "password_changed" in message_template:
            super().add_message(request, level, message_template, *args, **kwargs)
