"""Forms of the account pages."""

from typing import Any

from allauth.account.forms import ChangePasswordForm, LoginForm


class SignIn(LoginForm):
    """E-mail and password, without placeholders that would stand in for labels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _bare(self)
        self.fields["login"].widget.attrs["autofocus"] = True
        self.fields["password"].help_text = ""


class ChangePassword(ChangePasswordForm):
    """The password now and the new one twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _bare(self)


def _bare(form: Any) -> None:
    for field in form.fields.values():
        field.widget.attrs.pop("placeholder", None)
