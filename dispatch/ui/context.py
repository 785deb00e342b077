"""Context of every template: the installation's name and the product's version."""

from importlib.metadata import PackageNotFoundError, version

from django.conf import settings
from django.http import HttpRequest

try:
    VERSION = version("evenflow")
except PackageNotFoundError:  # run from a checkout that is not installed
    VERSION = ""


def installation(request: HttpRequest) -> dict[str, str]:
    """`installation` and `version`."""
    return {"installation": settings.EVENFLOW_INSTALLATION, "version": VERSION}
