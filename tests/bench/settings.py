"""Settings of the benchmarks: as in production, on a throw-away PostgreSQL with fsync on and its own defaults."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

SERVER = "EVENFLOW_TEST_SERVER"


def _start_server() -> str:
    from dispatch.store.embedded import Server

    folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-", dir="/tmp"))
    folder.chmod(0o755)
    server = Server(folder)
    server.ensure()

    def end() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return str(folder)


if SERVER not in os.environ:
    os.environ[SERVER] = _start_server()

from tests.settings import *  # noqa: E402, F403  # finds the server started above
