"""Forms of the account pages: allauth's, without placeholders that would stand in for labels."""

from typing import Any
from zoneinfo import available_timezones

from allauth.account import forms as account
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms

from dispatch.models import User

SEVERITIES = ("critical", "warning")
CODE = {"inputmode": "numeric", "autocomplete": "one-time-code", "autocapitalize": "off", "spellcheck": "false"}


class Bare:
    """Takes the placeholders away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():  # type: ignore[attr-defined]  # the form that this is mixed into
            field.widget.attrs.pop("placeholder", None)


class SignIn(Bare, account.LoginForm):
    """E-mail and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs["autofocus"] = True
        self.fields["password"].help_text = ""


class ChangePassword(Bare, account.ChangePasswordForm):
    """The password now and the new one twice."""


class SetPassword(Bare, account.SetPasswordForm):
    """A first password, for people who came by the company's sign-in."""


class ResetPassword(Bare, account.ResetPasswordForm):
    """The address that a reset link is sent to."""


class NewPassword(Bare, account.ResetPasswordKeyForm):
    """A new password, twice."""


class Reauthenticate(Bare, account.ReauthenticateForm):
    """The password again."""


class _Code(Bare):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].widget.attrs |= CODE | {"autofocus": True}  # type: ignore[attr-defined]  # see Bare
        self.fields["code"].max_length = 64  # type: ignore[attr-defined]  # see Bare


class Factor(_Code, AuthenticateForm):
    """A code of an app, or a recovery code."""


class FactorAgain(_Code, ReauthenticateForm):
    """The same, to confirm something that matters."""


class ActivateTotp(_Code, ActivateTOTPForm):
    """The first code of a new app."""


class Profile(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it at run time
    """What a person says and wishes: name, time zone, shortcuts, which alerts come by e-mail."""

    alert_mail = forms.MultipleChoiceField(
        choices=[(one, one) for one in SEVERITIES], required=False, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = User
        fields = ("name", "timezone", "shortcuts", "alert_mail")

    def clean_timezone(self) -> str:
        """A name of the tz database, or nothing for UTC."""
        name = str(self.cleaned_data["timezone"]).strip()
        if name and name not in available_timezones():
            raise forms.ValidationError("There is no such time zone. Names look like Europe/Berlin.")
        return name


class Welcome(forms.Form):
    """What an invited person without an account types: a name and a password, twice."""

    name = forms.CharField(max_length=120, required=False, widget=forms.TextInput({"autocomplete": "name"}))
    password1 = forms.CharField(max_length=200, widget=forms.PasswordInput({"autocomplete": "new-password"}))
    password2 = forms.CharField(max_length=200, widget=forms.PasswordInput({"autocomplete": "new-password"}))

    def clean_password2(self) -> str:
        """Both must agree."""
        if self.cleaned_data.get("password1") != self.cleaned_data["password2"]:
            raise forms.ValidationError("The two passwords differ.")
        return str(self.cleaned_data["password2"])
