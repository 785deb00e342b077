"""Settings of the tests: the product's own, on a throw-away PostgreSQL that the first process of a run starts.

It ends with that process, even by kill -9 (tests/watchdog.py). xdist workers inherit the environment of the
controller, so they find the running server and each get their own database on it.
"""

import atexit
import os
import tempfile
from pathlib import Path

from tests import watchdog

SERVER = "EVENFLOW_TEST_SERVER"


def _start_server() -> str:
    from dispatch.store.embedded import Server

    folder = Path(tempfile.mkdtemp(prefix="evenflow-test-", dir="/tmp"))
    folder.chmod(0o755)
    atexit.register(watchdog.watch(folder).end)
    Server(folder, fast_and_loose=True).ensure()
    return str(folder)


if SERVER not in os.environ:
    os.environ[SERVER] = _start_server()
os.environ["EVENFLOW_DATA"] = os.environ[SERVER]
os.environ.pop("DATABASE_URL", None)

from controlplane.settings import *  # noqa: E402, F403  # the environment has to be set before it is read

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # speed: passwords are not what is tested
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
DATABASES["default"]["OPTIONS"].pop("options")  # noqa: F405  # a test's own transaction may take its time
EVENFLOW_PULSE = False
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
