"""Signing in and out and changing the password: allauth's views with our templates."""

from typing import Any

from allauth.account.views import LogoutView, PasswordChangeView
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpResponse

from dispatch.models import User
from dispatch.ui import pages


class ChangePassword(LoginRequiredMixin, PasswordChangeView):
    """`/account/password`: the banner about the initial password goes away once it is changed."""

    template_name = "account/password_change.html"
    success_url = "/"

    def form_valid(self, form: Any) -> HttpResponse:
        """Save, stay signed in."""
        response: HttpResponse = super().form_valid(form)
        User.objects.filter(pk=self.request.user.pk).update(initial_password=False)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """The frame around the form."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | pages.frame_links(self.request.path)


class SignOut(LogoutView):
    """`/logout`: a question on GET; the person's open sockets of this session close with it."""

    template_name = "account/logout.html"

    def logout(self) -> None:
        """Sign out and tell the sockets, here and in other processes."""
        user, session = self.request.user.pk, self.request.session.session_key
        super().logout()
        layer = get_channel_layer()
        if user and layer is not None:
            async_to_sync(layer.group_send)(f"person.{user}", {"type": "person.left", "session": session})
