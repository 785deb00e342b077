"""`manage.py up`: the whole product in one terminal, from the embedded PostgreSQL to the printed address.

Steps: take the data directory, take the port, start PostgreSQL, migrate, make the first operator, start web and
cluster, wait until /readyz says yes, tell the address, then watch over all of it until Ctrl-C or SIGTERM.
The listening socket belongs to this process and is lent to the web process: while that one is being started again,
connections wait instead of being refused. One machine; Linux only.
"""

import errno
import fcntl
import http.client
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connections

from dispatch.jobs import lifeline, prepare
from dispatch.jobs.prepare import Refused
from dispatch.jobs.readyfile import ReadyFile
from dispatch.jobs.supervisor import Part, Supervisor
from dispatch.services import access, installation
from dispatch.store.embedded import EmbeddedError, Server

logger = logging.getLogger(__name__)

TICK_S = 0.2
SERVER_RETRY_S = 2.0
PORT_PATIENCE_S = 2.0  # a killed predecessor's web process needs a moment to let go of the port
READY_NOTICE_S = 15.0  # how often a start that takes long says what it waits for
PROBE_S = 2.0  # the lent socket takes connections also while nobody answers
HOPELESS = 5  # a part that died so often in a row before we were ever ready will not come
BACKLOG = 2048
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # where to reach a server that listens everywhere


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `manage.py up`."""

    host: str = "127.0.0.1"
    port: int = 8000
    ready_file: Path | None = None
    say: Callable[[str], None] = print


class Launch:
    """One run of the product: `run()` from start to stop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.data_dir = Path(settings.DATA_DIR)
        self.server = None if settings.DATABASE_URL else Server(self.data_dir)
        self.supervisor = Supervisor()
        self.stop = lifeline.Stop(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self.url = ""
        self._server_due = 0.0

    def run(self) -> None:
        """Start, watch, stop; raises Refused or EmbeddedError with one sentence."""
        lifeline.name_process("ef-up")
        with only_one(self.data_dir), self._listen() as listener:
            file = ReadyFile(self.options.ready_file) if self.options.ready_file else None
            try:
                if self._start(listener, file):
                    while not self.stop.wait(TICK_S):
                        self._tick()
                self.options.say("Stopping.")
            finally:
                if file:
                    file.discard()
                self.supervisor.stop()
                if self.server:
                    self.server.stop()

    def parts(self, listener: socket.socket) -> list[Part]:
        """The processes to keep running."""
        hosts = {*settings.ALLOWED_HOSTS, _bracketed(_reachable(self.options.host))}
        env = os.environ | {"EVENFLOW_DATA": str(self.data_dir), "EVENFLOW_HOSTS": ",".join(sorted(hosts))}
        base, fd, python = Path(settings.BASE_DIR), listener.fileno(), sys.executable
        web = [python, "-m", "controlplane.serve", "--fd", str(fd)]
        return [
            Part(name="web", command=web, env=env, cwd=base, pass_fds=(fd,)),
            Part(name="cluster", command=[python, "manage.py", "cluster"], env=env, cwd=base),
        ]

    def ready(self) -> None:
        """Called once when the product answers; the demo adds its parts here."""

    def _start(self, listener: socket.socket, file: ReadyFile | None) -> bool:
        """Everything up to the printed address; False when the stop was asked for on the way."""
        if self.server:
            self.server.ensure()
            self.options.say(f"PostgreSQL runs in {self.data_dir / 'postgres'}")
        made = prepare.prepare()
        installation.revoke_start_keys()
        key = installation.start_key("this start", sorted(access.SCOPES)) if file else ""
        email, password = made or (installation.operator_email(), None)
        if password is None and file and (old := file.known_password(email)):
            password = old if installation.initial_password_holds(email, old) else None
        connections.close_all()
        for part in self.parts(listener):
            self.supervisor.add(part)
        if not self._wait_until_ready():
            return False
        self.ready()
        if file:
            file.write(self.url, key, email, password)
        self._tell(made)
        return True

    def _wait_until_ready(self) -> bool:
        notice = time.monotonic() + READY_NOTICE_S
        while not self.stop.wait(TICK_S):
            self._tick()
            if self.supervisor.deaths() >= HOPELESS:
                raise Refused("A part of Evenflow does not start; the lines above say which and why.")
            missing = self._missing()
            if missing is None:
                return True
            if time.monotonic() > notice:
                notice += READY_NOTICE_S
                self.options.say(f"Still starting: {missing}")
        return False

    def _missing(self) -> str | None:
        """What /readyz still waits for; None when ready."""
        host, port = _reachable(self.options.host), int(self.url.rpartition(":")[2])
        connection = http.client.HTTPConnection(host, port, timeout=PROBE_S)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return None if answer.status == 200 else answer.read(500).decode(errors="replace").strip()
        except OSError as error:
            return f"the web process does not answer ({error})"
        finally:
            connection.close()

    def _tick(self) -> None:
        self.supervisor.tick()
        if self.server and not self.server.running() and time.monotonic() >= self._server_due:
            logger.warning("PostgreSQL is gone; starting it again")
            try:
                self.server.ensure()
            except EmbeddedError as error:
                logger.error("%s", error)
                self._server_due = time.monotonic() + SERVER_RETRY_S

    def _listen(self) -> socket.socket:
        host, port = self.options.host, self.options.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        patience = time.monotonic() + PORT_PATIENCE_S
        while True:
            try:
                listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    reason = str(error.strerror).partition(" (while")[0]  # what Python adds is our own sentence
                    raise Refused(f"The address {host} port {port} cannot be used: {reason}.") from None
                if time.monotonic() > patience or self.stop.is_set():
                    raise Refused(f"Port {port} is in use: stop the other program or choose another --port.") from None
                time.sleep(0.1)
        self.url = f"http://{_bracketed(_reachable(host))}:{listener.getsockname()[1]}"
        return listener

    def _tell(self, made: tuple[str, str] | None) -> None:
        say = self.options.say
        say(f"\nEvenflow is ready at {self.url}")
        if made:
            say(f"\n  Sign in as  {made[0]}\n  Password    {made[1]}\n")
            say("The password is shown only now; please change it.")
        if self.options.host in WILDCARDS:
            say("Other machines reach it by the names in EVENFLOW_HOSTS only.")
        say("Ctrl-C stops it.\n")


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data directory; Refused while another run holds it. The lock ends with the process, however it ends."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(data_dir / ".up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"The data directory {data_dir} cannot be used: {error.strerror}.") from None
    with os.fdopen(handle, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"Evenflow already runs on {data_dir} (process {lock.read(20)}); stop it first.") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _reachable(host: str) -> str:
    return WILDCARDS.get(host, host)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
