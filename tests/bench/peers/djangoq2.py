"""django-q2 with its ORM broker: `python -m tests.bench.peers.djangoq2 worker` is the cluster, else load and drain."""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

from tests.bench.peers.clock import Clock

DSN, LOG, COUNT = os.environ["BENCH_DSN"], os.environ["BENCH_LOG"], int(os.environ["BENCH_COUNT"])
WHERE = urlsplit(DSN)

SECRET_KEY = "bench"
INSTALLED_APPS = ["django_q"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": WHERE.path[1:],
        "USER": WHERE.username,
        "HOST": parse_qs(WHERE.query)["host"][0],
        "CONN_MAX_AGE": None,
    }
}
Q_CLUSTER = {
    "name": "bench", "orm": "default", "workers": 2, "bulk": 10, "save_limit": -1, "queue_limit": 200,
    "recycle": 1_000_000, "timeout": 300, "retry": 360, "ack_failures": True, "log_level": "ERROR", "scheduler": False,
}  # fmt: skip

_clock = Clock(LOG)


def noop(_payload: dict[str, object]) -> None:
    """The task."""
    _clock.tick()


def main() -> None:
    """Load, run the cluster until all have started, tell the rate."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.peers.djangoq2"
    import django
    from django.core.management import call_command
    from django.db import transaction

    django.setup()
    if sys.argv[1:] == ["worker"]:
        call_command("qcluster")
        return
    from django_q.tasks import async_task

    call_command("migrate", verbosity=0)
    began = time.perf_counter()
    with transaction.atomic():
        for n in range(COUNT):
            async_task("tests.bench.peers.djangoq2.noop", {"seq": n, "pad": "x" * 130})
    loaded = time.perf_counter() - began
    cluster = subprocess.Popen([sys.executable, "-m", "tests.bench.peers.djangoq2", "worker"], start_new_session=True)
    end = time.monotonic() + 120
    while _clock.count() < COUNT and time.monotonic() < end:
        time.sleep(0.05)
    cluster.terminate()
    cluster.wait(20)
    version = importlib.metadata.version("django-q2")
    print(json.dumps({"name": f"django-q2 {version}", "submit": COUNT / loaded, "drain": _clock.rate()}))


if __name__ == "__main__":
    main()
