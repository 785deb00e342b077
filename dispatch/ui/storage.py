"""Static files with hashed names, compressed, served by WhiteNoise; ES modules import each other by hashed names."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStatic(CompressedManifestStaticFilesStorage):
    """`collectstatic` fills it; an address that is not in its manifest is an error, never a broken page."""

    support_js_module_import_aggregation = True
