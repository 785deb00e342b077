"""A killed run of the tests leaves nothing: no PostgreSQL, no product, no folder."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests import watchdog
from tests.acceptance.harness import ROOT, clean_environment

pytestmark = pytest.mark.processes

# Like tests/settings.py in the first process of a run: it tells the server's folder, then is killed.
STARTER = "import os, time; from tests import settings; print(os.environ[settings.SERVER], flush=True); time.sleep(600)"


def gone(folder: Path) -> bool:
    return not folder.exists() and not watchdog.named(folder)


def test_the_server_and_its_folder_go_when_their_starter_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        folder = Path(starter.stdout.readline().strip())
        assert folder.exists()
        assert "postgres" in {name for _, name in watchdog.named(folder)}
        os.kill(starter.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while not gone(folder):
        assert time.monotonic() < end, f"left: {folder}, {watchdog.named(folder)}"
        time.sleep(0.05)


def test_the_orderly_end_waits_until_all_is_gone() -> None:
    folder = Path(tempfile.mkdtemp(prefix="evenflow-watch-", dir="/tmp"))
    watch = watchdog.watch(folder)
    process = subprocess.Popen(["sleep", "600"], env={"HOLDS": str(folder)})
    watch.end()
    assert process.wait(1) == -signal.SIGKILL
    assert gone(folder)
