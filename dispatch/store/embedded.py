"""The embedded PostgreSQL server of a data directory, and the database settings that reach it.

It listens on a unix socket only and trusts whoever may enter the socket's 0700 folder. Several processes may ask for
it at once: one starts it, all get the same one. postmaster.pid is never deleted: after a crash the start is repeated
until the old server's last process is gone. Nothing above the data directory is ever changed.
"""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dispatch.store import programs
from dispatch.store.programs import EmbeddedError

__all__ = ["EmbeddedError", "Server", "database_settings", "socket_dir"]

SUPERUSER = "evenflow"
DATABASE = "evenflow"
START_PATIENCE_S = 10.0  # after a crash the old server's processes may need a moment to go
RECOVERY_PATIENCE_S = 600.0  # replaying the log after a crash; pg_ctl returns at once when the server gives up
CONNECTIONS = 200
IDLE_IN_TRANSACTION_S = 10  # a process that is frozen in a transaction must not keep its locks for ever
LOG_BYTES = 10_000_000  # a longer server.log is put aside at the next start


def socket_dir(data_dir: Path) -> Path:
    """Where the server's socket lies: in the data directory, or under /tmp where that path does not do for one."""
    inside = data_dir / "run"
    # sun_path holds 107 bytes and the socket's own name needs up to 24; a comma would separate hosts for libpq.
    if len(os.fsencode(inside)) <= 80 and re.fullmatch(r"[\w/.+-]+", str(inside), re.ASCII):
        return inside
    return Path("/tmp") / f"evenflow-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}"  # noqa: S108


def database_settings(url: str, data_dir: Path, pool: int = 0) -> dict[str, Any]:
    """Django's DATABASES entry for DATABASE_URL, else for the embedded server of this data directory.

    `pool`: at most that many connections, shared by the threads of this process (0: one per thread, for processes
    that fork).
    """
    options: dict[str, Any] = {
        "prepare_threshold": 5,
        "options": f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_S}s",
    }
    if pool:
        # A short reconnect_timeout: after an outage the pool asks again at the next request, not after a long pause.
        options["pool"] = {"min_size": 1, "max_size": pool, "timeout": 10, "reconnect_timeout": 2}
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


class Server:
    """The server of one data directory: `ensure()` makes and starts it, `stop()` ends it."""

    def __init__(self, data_dir: Path, *, fast_and_loose: bool = False) -> None:
        """`fast_and_loose` turns fsync off: for throw-away servers of tests only."""
        self.data_dir = data_dir.absolute()
        self.cluster = self.data_dir / "postgres"
        self.socket = socket_dir(self.data_dir)
        self.fast_and_loose = fast_and_loose
        self.owner: programs.Owner | None = None
        self.folder = Path()

    def ensure(self) -> bool:
        """Make the cluster and start the server where needed; True when this call started it.

        Raises EmbeddedError with one sentence when this machine or this directory cannot have a server.
        """
        try:
            self._prepare()
            with self._lock():
                self._find_programs()
                if not (self.cluster / "PG_VERSION").exists():
                    self._initdb()
                self._check_major()
                started = not self._answers()
                if started:
                    self._start()
        except OSError as error:
            raise EmbeddedError(f"The data directory {self.data_dir} cannot be used: {error.strerror}.") from None
        return started

    def stop(self) -> None:
        """Stop the server, fast but clean; a server that is not running is no error."""
        if not self.running():
            return
        with self._lock():
            self._find_programs()
            self._run("pg_ctl", "-D", str(self.cluster), "-m", "fast", "-w", "-t", "60", "stop")

    def running(self) -> bool:
        """Whether the postmaster's process lives: cheap enough to ask every second."""
        pid = self.pid()
        try:
            return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def pid(self) -> int | None:
        """The postmaster's process id as its pid file says; the file may be a dead one's."""
        try:
            return int((self.cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    # Before the server

    def _prepare(self) -> None:
        if re.search(r'["$`\\\n]', str(self.data_dir)):
            raise EmbeddedError(f"The data directory {str(self.data_dir)!r} has a character that PostgreSQL refuses.")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.owner = programs.owner_of(self.cluster)
        if self.owner is None:
            return
        if closed := programs.closed_folder(self.data_dir, self.owner):
            raise EmbeddedError(
                f"As root PostgreSQL runs as the user {self.owner.name}, who cannot enter {closed}: "
                "choose a data directory elsewhere (--data), or start as another user."
            )
        mode = self.data_dir.stat().st_mode
        if mode & 0o011 != 0o011 and not programs.may(self.owner, "-x", [self.data_dir]):
            self.data_dir.chmod(mode | 0o011)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        handle = os.open(self.data_dir / ".postgres.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _find_programs(self) -> None:
        self.owner = programs.owner_of(self.cluster)
        self.folder = programs.readable(self.data_dir, self.owner)

    def _initdb(self) -> None:
        half = self.data_dir / ".postgres.half"  # renamed when complete: an interrupted start leaves no half cluster
        shutil.rmtree(half, ignore_errors=True)
        self._own(half)
        options = ("--locale=C.UTF-8", "-E", "UTF8", "--no-instructions")
        done = self._run("initdb", "-D", str(half), "-U", SUPERUSER, "-A", "trust", *options)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise EmbeddedError(f"PostgreSQL could not make its data in {self.data_dir}: {reason}")
        half.rename(self.cluster)

    def _own(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        uid = self.owner.uid if self.owner else os.geteuid()
        if folder.is_symlink() or folder.stat().st_uid not in {uid, os.geteuid()}:
            raise EmbeddedError(f"{folder} belongs to somebody else.")
        if self.owner:
            os.chown(folder, self.owner.uid, self.owner.gid)
        folder.chmod(0o700)

    def _check_major(self) -> None:
        made_by = int((self.cluster / "PG_VERSION").read_text().split(".")[0])
        present = programs.major(self.folder)
        if made_by != present:
            raise EmbeddedError(
                f"The data directory {self.data_dir} was made by PostgreSQL {made_by}, but this is PostgreSQL "
                f"{present}: use that version, or move the data with pg_upgrade."
            )
        if present < programs.MINIMUM:
            raise EmbeddedError(f"PostgreSQL {programs.MINIMUM} or newer is needed; this is PostgreSQL {present}.")

    # The server

    def _answers(self) -> bool:
        import psycopg

        address = {"host": str(self.socket), "user": SUPERUSER, "connect_timeout": 5}
        try:
            with psycopg.connect(dbname="postgres", autocommit=True, **address) as admin:  # type: ignore[arg-type]
                if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                    admin.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True

    def _start(self) -> None:
        log = self.cluster / "server.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.rename(log.with_suffix(".log.1"))
        self._own(self.socket)
        patience = time.monotonic() + START_PATIENCE_S
        wait = ("-w", "-t", str(int(RECOVERY_PATIENCE_S)))
        while True:
            self._run("pg_ctl", "-D", str(self.cluster), *wait, "-l", str(log), "-o", self._flags(), "start")
            if self._answers():
                return
            if time.monotonic() > patience:
                raise EmbeddedError(f"PostgreSQL did not start: {_last_words(log)} (its log is {log})")
            time.sleep(0.2)

    def _flags(self) -> str:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket),
            "unix_socket_permissions": "0700",
            "max_connections": str(CONNECTIONS),
            "shared_buffers": "128MB",
            "jit": "off",
        }
        if self.fast_and_loose:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return " ".join(f"-c {shlex.quote(f'{key}={value}')}" for key, value in settings.items())

    def _run(self, program: str, *arguments: str) -> Any:
        return programs.run(self.folder / program, *arguments, owner=self.owner)


def _last_words(log: Path) -> str:
    """The last fatal message of the server's log."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-50:]
    except OSError:
        return "it left no log"
    fatal = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
    return fatal[-1] if fatal else "no reason given"
