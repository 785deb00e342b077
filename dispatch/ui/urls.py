"""Addresses of the console. Signing up does not exist; the other account pages come from allauth, under
the addresses above ours (of two with one name the last one is what `reverse` finds).
"""

from allauth.account import views as account
from django.urls import include, path
from django.urls.resolvers import URLPattern, URLResolver

from dispatch.live import views as live
from dispatch.ui.views import overview, policy
from dispatch.ui.views.account import ChangePassword

urlpatterns: list[URLPattern | URLResolver] = [
    path("account/", include("allauth.account.urls")),
    path("account/2fa/", include("allauth.mfa.urls")),
    path("", overview.overview, name="overview"),
    path("policy/<slug:kind>/<str:slug>/weight", policy.weight, name="weight"),
    path("live/<slug:topic>.json", live.poll, name="poll"),
    path("login", account.login, name="account_login"),
    path("logout", account.logout, name="account_logout"),
    path("account/password", ChangePassword.as_view(), name="account_change_password"),
]
