"""Static files with hashed names, compressed, served by WhiteNoise; ES modules import each other by hashed names.

`collectstatic` fills it; an address that is not in its manifest is an error, never a broken page.
"""

from collections.abc import Iterator
from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage

UNUSED = "django_htmx/ext/"  # htmx's extensions name modules that the package does not ship under that name


class HashedStatic(CompressedManifestStaticFilesStorage):
    """Everything but what no page uses."""

    support_js_module_import_aggregation = True

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        """Hash and compress."""
        used = {name: where for name, where in paths.items() if not name.startswith(UNUSED)}
        yield from super().post_process(used, dry_run=dry_run, **options)
