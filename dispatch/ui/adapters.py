"""How django-allauth behaves here."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):
    """Accounts are made by operators and invitations, never by signing up."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Nobody may sign up by themselves."""
        return False
