"""Runs the real product: `manage.py up` on its own data directory and port, found by its ready-file.

    with running() as product:
        status, answer = product.call("GET", "/api/v1/pools/default")
        product.kill("dispatcher")
        product.wait_for(lambda: product.call("GET", "/readyz")[0] == 200)

`stop()` (or the end of the block) asserts that no process is left. Processes are found by an environment variable
that all of them inherit, so orphans count too; the kinds are the names in `Product.pids()`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import watchdog

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 120.0  # a busy machine needs its time
STOP_S = 60.0
CLUSTER = frozenset(
    {"cluster", "sentinel", "dispatcher", "reconciler", "messenger", "q2-worker", "q2-pusher", "q2-monitor"}
)
KINDS = CLUSTER | {"up", "web"}  #: what runs beside PostgreSQL


class Product:
    """One run of `manage.py <command>`; make it with `running()`."""

    def __init__(self, data: Path, command: tuple[str, ...] = ("up",), env: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.mark = f"EVENFLOW_TEST_RUN={uuid.uuid4().hex}"
        self.ready_file = data.with_name(f"{data.name}-ready.json")
        self.log_file = data.with_name(f"{data.name}.log")
        self.command = command
        self.env = clean_environment() | dict([self.mark.split("=")]) | dict(env or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.url = self.admin_key = ""
        self.operator: dict[str, str | None] = {}

    # Start and stop

    def start(self, *options: str) -> "Product":
        """Start it and wait for the ready-file."""
        if self.process is not None:
            self.process.wait(10)  # the run before, stopped or killed
        self.ready_file.unlink(missing_ok=True)
        arguments = [*self.command, "--data", str(self.data), "--ready-file", str(self.ready_file), "--port", "0"]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments, *options],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.wait_for(lambda: self.ready_file.exists() or self.process.poll() is not None, START_S)  # type: ignore[union-attr]
            assert self.process.poll() is None, f"it ended with code {self.process.returncode}"
        except AssertionError as error:
            self.kill_all()
            raise AssertionError(f"{error}\n{self.log()[-4000:]}") from None
        told = json.loads(self.ready_file.read_text())
        self.url, self.admin_key, self.operator = told["url"], told["admin_key"], told["operator"]
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it in an orderly way; its exit code. Asserts that nothing is left."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            left = self.pids()
            self.kill_all()
            raise AssertionError(f"it did not stop within {STOP_S} s; left: {left}\n{self.log()[-4000:]}") from None
        left = self.pids()
        self.kill_all()
        assert left == {}, f"left after the stop: {left}"
        return code

    def kill_all(self) -> None:
        """The hard end of everything that belongs to this run."""
        for number in [pid for pids in self.pids().values() for pid in pids]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        self.wait_for(lambda: not self.pids(), 10)

    # Processes

    def pids(self) -> dict[str, list[int]]:
        """Living processes by kind: up, web, cluster, sentinel, dispatcher, reconciler, q2-worker, postgres, …"""
        found: dict[str, list[int]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and (kind := self._kind(folder)):
                found.setdefault(kind, []).append(int(folder.name))
        return found

    def _kind(self, folder: Path) -> str | None:
        try:
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return None
            name = (folder / "comm").read_text().strip()
            if name == "postgres":  # started with a clean environment, known by its data directory
                ours = str(self.data / "postgres").encode() in (folder / "cmdline").read_bytes().split(b"\0")
                return "postgres" if ours else None
            ours = self.mark.encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            return None
        return name.removeprefix("ef-") if ours else None

    def pid(self, kind: str) -> int:
        """The only process of this kind, or the first one."""
        return min(self.pids()[kind])

    def kill(self, kind: str, number: int = signal.SIGKILL) -> int:
        """Send a signal (kill -9) to one process of this kind; its process id."""
        pid = self.pid(kind)
        os.kill(pid, number)
        return pid

    # Talking to it

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, timeout: float = 30
    ) -> tuple[int, Any]:
        """One request with the admin key (or `key`): status and decoded JSON. Raises OSError when nobody answers."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {key or self.admin_key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            text = refusal.read()
            try:
                return refusal.code, json.loads(text)
            except ValueError:
                return refusal.code, text.decode(errors="replace")

    def ok(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """One request that has to succeed; its answer."""
        status, answer = self.call(method, path, body, key=key)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def patch(self, kind: str, slug: str, **changes: Any) -> Any:
        """Edit one policy object as it is now: `patch("pools", "default", lease_ttl_s=2, heartbeat_every_s=0.5)`."""
        version = self.ok("GET", f"/api/v1/{kind}/{slug}")["version"]
        return self.ok("PATCH", f"/api/v1/{kind}/{slug}", {"version": version, "reason": "test", **changes})

    def healthy(self) -> bool:
        """Whether /readyz says yes."""
        try:
            return self.call("GET", "/readyz", timeout=5)[0] == 200
        except OSError:
            return False

    def wait_for(self, condition: Callable[[], Any], patience: float = 40) -> Any:
        """The first true answer of `condition`, asked every 50 ms; AssertionError after `patience` seconds."""
        end = time.monotonic() + patience
        while not (found := condition()):
            assert time.monotonic() < end, f"still not so after {patience} s"
            time.sleep(0.05)
        return found

    def log(self) -> str:
        """All lines so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


def clean_environment() -> dict[str, str]:
    """Our environment without what makes a test's Django of it."""
    skipped = ("EVENFLOW_", "DJANGO_SETTINGS_MODULE", "DATABASE_URL", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(skipped)}


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A folder that every user can enter, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="evenflow-run-", dir="/tmp"))
    folder.chmod(0o755)
    watch = watchdog.watch(folder)
    try:
        yield folder
    finally:
        watch.end()


@contextlib.contextmanager
def running(
    *options: str, command: tuple[str, ...] = ("up",), env: Mapping[str, str] | None = None
) -> Iterator[Product]:
    """A started product on a new data directory, stopped (and found gone) at the end."""
    with place() as folder:
        product = Product(folder / "data", command, env).start(*options)
        try:
            yield product
        except BaseException:
            sys.stderr.write(product.log()[-6000:])
            product.kill_all()
            raise
        if product.process is not None and product.process.poll() is None:
            product.stop()


class Cluster:
    """A second cluster on a product's database, as another machine would run it; make it with `another_cluster()`."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.process: subprocess.Popen[bytes] | None = None

    def tend(self) -> None:
        """Start it, again when it has died: what a service manager does."""
        if self.process is None or self.process.poll() is not None:
            env = self.product.env | {"EVENFLOW_DATA": str(self.product.data)}
            with self.product.log_file.open("ab") as log:
                command = [sys.executable, "manage.py", "cluster"]
                self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop it in an orderly way, which needs its processes awake."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(STOP_S)


@contextlib.contextmanager
def another_cluster(product: Product) -> Iterator[Cluster]:
    """A second cluster beside the product's own, with its dispatcher at work, stopped at the end."""
    cluster = Cluster(product)
    cluster.tend()
    try:
        product.wait_for(lambda: len(product.pids().get("dispatcher", [])) >= 2)
        yield cluster
    finally:
        cluster.stop()
