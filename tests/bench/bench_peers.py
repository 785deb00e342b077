"""Task queues of this field on the same PostgreSQL, in the same run: no-op handlers, 200-byte payloads.

They run in a virtual environment of their own (EVENFLOW_BENCH_PEERS, default .peers), made on demand. They are
libraries inside the worker: no HTTP, no leases by outside agents, no fairness; so their rates stand beside our rates
over HTTP and in one process, not against one of them. What cannot be had here is named with its reason.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from dispatch.store.embedded import SUPERUSER, socket_dir
from tests.acceptance.harness import ROOT, clean_environment
from tests.bench.report import Lines

COUNT = int(20_000 * float(os.environ.get("EVENFLOW_BENCH_SCALE", "1")))
HOME = Path(os.environ.get("EVENFLOW_BENCH_PEERS", ROOT / ".peers"))
PEERS = {  # module → how many tasks (the slow ones get fewer), packages
    "djangoq2": (COUNT // 4, ["django>=5.2,<5.3", "django-q2==1.11.*"]),
    "procrastinates": (COUNT // 4, ["procrastinate"]),
    "pgqueuers": (COUNT, ["pgqueuer", "asyncpg"]),
}
ELSEWHERE = {
    "celery, dramatiq, bullmq": "need a Redis server beside PostgreSQL",
    "graphile-worker, pg-boss": "need Node 22.18 or newer",
}


def python() -> str:
    """The peers' own interpreter, with all that could be installed."""
    found = HOME / "bin" / "python"
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    packages = [name for _, names in PEERS.values() for name in names]
    quiet = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "psycopg[binary,pool]"]
    done = subprocess.run([*quiet, *packages], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(HOME, ignore_errors=True)
        pytest.skip(f"the peers cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return str(found)


def run(interpreter: str, peer: str, count: int) -> dict[str, object]:
    """One peer on a fresh database."""
    where = socket_dir(Path(os.environ["EVENFLOW_TEST_SERVER"]))
    database = f"peer_{peer}"
    with psycopg.connect(host=str(where), user=SUPERUSER, dbname="postgres", autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")  # type: ignore[call-overload]
        admin.execute(f"CREATE DATABASE {database}")  # type: ignore[call-overload]
    with tempfile.TemporaryDirectory() as folder:
        env = clean_environment() | {
            "BENCH_DSN": f"postgresql://{SUPERUSER}@/{database}?host={where}",
            "BENCH_LOG": f"{folder}/starts",
            "BENCH_COUNT": str(count),
        }
        command = [interpreter, "-m", f"tests.bench.peers.{peer}"]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    told: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def bench_peers() -> None:
    interpreter = python()
    drains, submits, missing = (
        Lines("Peers: tasks/s drained"),
        Lines("Peers: tasks/s submitted in bulk"),
        dict(ELSEWHERE),
    )
    for peer, (count, _) in PEERS.items():
        told = run(interpreter, peer, count)
        if "error" in told:
            missing[peer] = str(told["error"])
            continue
        drains.add(str(told["name"]), float(str(told["drain"])))
        submits.add(str(told["name"]), float(str(told["submit"])))
    drains.show()
    submits.show()
    for name, reason in missing.items():
        print(f"not run: {name}: {reason}")
