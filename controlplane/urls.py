"""All addresses of the product."""

from django.urls import URLPattern, URLResolver, include, path

from controlplane import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", include("dispatch.api.urls")),
    path("", include("dispatch.ui.urls")),
]
