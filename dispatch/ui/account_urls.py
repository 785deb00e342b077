"""Addresses of signing in and of the own account. Of allauth's pages only those are mounted that have our templates;
the names are allauth's, which its views look up.
"""

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.webauthn import views as passkeys
from allauth.socialaccount import views as social
from allauth.socialaccount.providers.openid_connect import views as oidc
from django.urls import path, re_path
from django.urls.resolvers import URLPattern, URLResolver
from django.views.generic import RedirectView

from dispatch.ui.views import account as ours
from dispatch.ui.views import invitation, profile

overview = RedirectView.as_view(url="/account")

urlpatterns: list[URLPattern | URLResolver] = [
    path("login", ours.SignIn.as_view(), name="account_login"),
    path("login/code", factors.authenticate, name="mfa_authenticate"),
    path("login/passkey", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("login/cancelled", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("login/error", social.login_error, name="socialaccount_login_error"),
    path("login/unknown", social.signup, name="socialaccount_signup"),
    path("login/oidc/<slug:provider_id>", oidc.login, name="openid_connect_login"),
    path("login/oidc/<slug:provider_id>/callback", oidc.callback, name="openid_connect_callback"),
    path("logout", ours.SignOut.as_view(), name="account_logout"),
    path("invitation/<str:token>", invitation.invitation, name="invitation"),
    path("account", profile.profile, name="account"),
    path("account/security", overview, name="mfa_index"),
    path("account/sessions/others/end", profile.end_others, name="end_other_sessions"),
    path("account/sessions/<int:session_id>/end", profile.end_session, name="end_session"),
    path("account/inactive", account.account_inactive, name="account_inactive"),
    path("account/signup", account.signup, name="account_signup"),
    path("account/password", ours.ChangePassword.as_view(), name="account_change_password"),
    path("account/password/set", ours.SetPassword.as_view(), name="account_set_password"),
    path("account/password/reset", ours.ResetPassword.as_view(), name="account_reset_password"),
    path("account/password/reset/sent", account.password_reset_done, name="account_reset_password_done"),
    path(
        "account/password/reset/done",
        account.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^account/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)$",
        ours.NewPassword.as_view(),
        name="account_reset_password_from_key",
    ),
    path("account/confirm", ours.Reauthenticate.as_view(), name="account_reauthenticate"),
    path("account/confirm/code", ours.ReauthenticateFactor.as_view(), name="mfa_reauthenticate"),
    path("account/confirm/passkey", ours.ReauthenticatePasskey.as_view(), name="mfa_reauthenticate_webauthn"),
    path("account/totp/activate", ours.ActivateTotp.as_view(), name="mfa_activate_totp"),
    path("account/totp/deactivate", ours.DeactivateTotp.as_view(), name="mfa_deactivate_totp"),
    path("account/codes", ours.ViewCodes.as_view(), name="mfa_view_recovery_codes"),
    path("account/codes/generate", ours.GenerateCodes.as_view(), name="mfa_generate_recovery_codes"),
    path("account/codes/download", codes.download_recovery_codes, name="mfa_download_recovery_codes"),
    path("account/passkeys", overview, name="mfa_list_webauthn"),
    path("account/passkeys/add", ours.AddPasskey.as_view(), name="mfa_add_webauthn"),
    path("account/passkeys/<int:pk>/edit", ours.EditPasskey.as_view(), name="mfa_edit_webauthn"),
    path("account/passkeys/<int:pk>/remove", ours.RemovePasskey.as_view(), name="mfa_remove_webauthn"),
    path("account/company", profile.disconnect, name="socialaccount_connections"),
]
