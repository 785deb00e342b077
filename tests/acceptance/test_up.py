"""`manage.py up`: first start, restart, healing, stop."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from dispatch.store import embedded
from dispatch.store.embedded import Server
from tests.acceptance.harness import KINDS, ROOT, Product, clean_environment, place

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SECRETS = {"SECRET_KEY": "x" * 50, "EVENFLOW_PEPPER": "y" * 50}


def command(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=clean_environment() | environment,
        text=True,
        capture_output=True,
        timeout=60,
    )


def assert_refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    """One sentence on stderr, no traceback, a bad exit code."""
    told = done.stderr.strip()
    assert done.returncode != 0
    assert "\n" not in told and "Traceback" not in told, told
    for word in words:
        assert word in told, told


def test_a_first_start_tells_where_and_who(product: Product) -> None:
    assert set(product.pids()) == KINDS | {"postgres"}
    told = json.loads(product.ready_file.read_text())
    assert stat.S_IMODE(product.ready_file.stat().st_mode) == 0o600
    assert set(told) == {"url", "admin_key", "operator"}
    log = product.log()
    assert f"Evenflow is ready at {told['url']}" in log
    assert told["operator"]["email"] in log and told["operator"]["password"] in log
    assert "ef_" not in log, "keys are never printed"
    assert product.call("GET", "/healthz")[0] == product.call("GET", "/readyz")[0] == 200


def test_a_second_up_on_the_same_data_is_refused(product: Product) -> None:
    done = command("up", "--data", str(product.data), "--port", "0")
    assert_refused(done, "already runs on", str(product.pid("up")))


def test_a_busy_port_is_one_sentence(product: Product) -> None:
    with place() as folder:
        done = command("up", "--data", str(folder / "data"), "--port", product.url.rpartition(":")[2])
    assert_refused(done, "Port", "is in use")


@pytest.mark.parametrize("kind", sorted((KINDS | {"postgres"}) - {"up"}))
def test_whatever_is_killed_comes_back(product: Product, kind: str) -> None:
    def whole() -> bool:
        now = {name: len(pids) for name, pids in product.pids().items()}
        return all(now.get(name, 0) >= (2 if name == "q2-worker" else 1) for name in KINDS) and product.healthy()

    product.wait_for(whole)
    killed = product.kill(kind)
    product.wait_for(lambda: killed not in product.pids().get(kind, []) and whole())


def test_stop_restart_and_a_hard_end_lose_nothing() -> None:
    with place() as folder:
        product = Product(folder / "data").start()
        first, first_key = product.operator, product.admin_key
        product.ok("POST", "/api/v1/classes", {"slug": "background"})
        product.ok("POST", "/api/v1/tenants", {"slug": "sales"})
        task = product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "background", "payload": 1})
        assert product.stop(signal.SIGINT) == 0
        product.start()
        assert product.call("GET", "/api/v1/pools", key=first_key)[0] == 401, "the start before's key is revoked"
        assert product.ok("GET", f"/api/v1/tasks/{task['id']}")["state"] == "queued"
        assert product.operator == {"email": first["email"], "password": None}
        assert product.log().count("Sign in as") == 1
        os.kill(product.pid("up"), signal.SIGKILL)
        product.wait_for(lambda: set(product.pids()) <= {"postgres"}, 5)
        product.start()
        assert product.ok("GET", f"/api/v1/tasks/{task['id']}")["state"] == "queued"
        assert product.stop() == 0
        assert not (product.data / "postgres" / "postmaster.pid").exists()


def test_with_database_url_nothing_is_embedded_and_the_server_is_left_alone() -> None:
    with place() as folder:
        server = Server(folder / "elsewhere", fast_and_loose=True)
        server.ensure()
        try:
            url = f"postgresql://{embedded.SUPERUSER}@/{embedded.DATABASE}?host={server.socket}"
            product = Product(folder / "data", env={"DATABASE_URL": url, **SECRETS}).start()
            assert "postgres" not in product.pids()
            assert product.stop() == 0
            assert not (product.data / "postgres").exists()
            assert server.running()
        finally:
            server.stop()


def test_a_stop_in_the_middle_of_the_start_leaves_nothing() -> None:
    with place() as folder:
        product = Product(folder / "data")
        product.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--data", str(product.data), "--port", "0"],
            cwd=ROOT,
            env=product.env,
            stdout=subprocess.DEVNULL,
        )
        product.wait_for(lambda: (product.data / "postgres").exists())
        time.sleep(0.3)
        assert product.stop() == 0


def test_what_cannot_start_says_so_in_one_sentence() -> None:
    with place() as folder:
        (folder / "file").touch()
        assert_refused(command("up", "--data", str(folder / "file" / "data")), "file/data", "cannot be used")
        port = ("--data", str(folder / "data"), "--port", "0")
        assert_refused(command("up", *port, "--ready-file", str(folder / "no" / "r")), "ready-file", "cannot be")
        url = "postgresql://nobody@127.0.0.1:1/none"
        assert_refused(command("up", *port, DATABASE_URL=url, **SECRETS), "PostgreSQL cannot be reached")
        assert_refused(command("up", *port, DATABASE_URL=url), "SECRET_KEY must be set together with DATABASE_URL")
        assert_refused(command("up", *port, EVENFLOW_HOT="perhaps"), "EVENFLOW_HOT must be 1 or 0")
        assert_refused(command("up", *port, EVENFLOW_POSTGRES_BIN="/nowhere"), "/nowhere/postgres does not run")
        assert_refused(command("cluster", DATABASE_URL=url, **SECRETS), "PostgreSQL cannot be reached")
        assert_refused(command("setup", DATABASE_URL=url, **SECRETS), "PostgreSQL cannot be reached")
