"""The embedded PostgreSQL: who may start it where, and what it survives."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dispatch.store import embedded, programs
from dispatch.store.embedded import EmbeddedError, Server
from tests import watchdog

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder directly below /tmp, which every user may enter."""
    path = Path(tempfile.mkdtemp(prefix="evenflow-embedded-", dir="/tmp"))
    path.chmod(0o755)
    watch = watchdog.watch(path)
    yield path
    watch.end()


def connect(server: Server) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(host=str(server.socket), user=embedded.SUPERUSER, dbname=embedded.DATABASE, autocommit=True)


def test_a_server_keeps_its_data_when_killed_and_started_again(folder: Path) -> None:
    server = Server(folder, fast_and_loose=True)
    assert server.ensure() is True
    assert server.ensure() is False
    with connect(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        connection.execute("CHECKPOINT")
    first = server.pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert server.ensure() is True
    assert server.pid() != first
    with connect(server) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)
    server.stop()
    assert not server.running()
    server.stop()  # once more is no error


def test_four_starters_at_once_get_one_server(folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from dispatch.store.embedded import Server\n"
        "s = Server(Path(sys.argv[1]), fast_and_loose=True); print(s.ensure(), s.pid())"
    )
    racing = [
        subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [process.communicate(timeout=60)[0].split() for process in racing]
    assert sorted(started for started, _ in told) == ["False", "False", "False", "True"]
    assert len({pid for _, pid in told}) == 1


def test_a_first_start_that_was_cut_short_is_simply_done_again(folder: Path) -> None:
    (folder / ".postgres.half" / "base").mkdir(parents=True)
    assert Server(folder, fast_and_loose=True).ensure() is True
    assert not (folder / ".postgres.half").exists()


@pytest.mark.parametrize("name", ["it's a, folder", "x" * 120, "gl\u00fcck"])
def test_any_directory_name_will_do(folder: Path, name: str) -> None:
    server = Server(folder / name, fast_and_loose=True)
    assert server.ensure() is True
    with connect(server) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert server.socket.stat().st_mode & 0o777 == 0o700
    server.stop()


@as_root
def test_a_private_data_directory_of_root_is_opened_for_passing_through_only(folder: Path) -> None:
    private = folder / "data"
    private.mkdir(mode=0o700)
    assert Server(private, fast_and_loose=True).ensure() is True
    assert private.stat().st_mode & 0o777 == 0o711
    assert folder.stat().st_mode & 0o777 == 0o755


def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    server = Server(folder)
    (folder / "postgres").mkdir()
    (folder / "postgres" / "PG_VERSION").write_text("9\n")
    if os.geteuid() == 0:
        os.chown(folder / "postgres", 65534, 65534)
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 9, but this is PostgreSQL"):
        server.ensure()


def test_a_directory_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(EmbeddedError, match=f"{folder}/file/data cannot be used: Not a directory"):
        Server(folder / "file" / "data").ensure()


def test_missing_postgresql_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENFLOW_POSTGRES_BIN", raising=False)
    monkeypatch.setattr(programs, "_wheel", lambda: None)
    monkeypatch.setattr(programs, "SYSTEM", folder / "no-postgresql-here")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(EmbeddedError, match="No PostgreSQL found") as refusal:
        Server(folder).ensure()
    assert "\n" not in str(refusal.value)


def test_a_server_that_cannot_start_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(folder, fast_and_loose=True)
    server.ensure()
    server.stop()
    (folder / "postgres" / "postgresql.auto.conf").write_text("shared_buffers = nonsense\n")
    monkeypatch.setattr(embedded, "START_PATIENCE_S", 0.0)
    with pytest.raises(EmbeddedError, match="did not start: configuration file"):
        Server(folder).ensure()


@as_root
def test_root_is_refused_below_a_closed_folder_and_nothing_is_opened(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=f"cannot enter {closed}: choose a data directory elsewhere"):
        Server(closed / "deep" / "data").ensure()
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_root_copies_programs_that_its_postgresql_user_cannot_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENFLOW_POSTGRES_BIN", raising=False)
    private = folder / "venv"
    private.mkdir(mode=0o700)
    package = programs.installed().parent.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, private / part.name, symlinks=True)
    monkeypatch.setattr(programs, "_wheel", lambda: private / package.name / "pginstall")
    server = Server(folder / "data", fast_and_loose=True)
    assert server.ensure() is True
    assert folder / "data" in server.folder.parents
    made = server.folder.stat().st_ctime
    server.stop()
    assert Server(folder / "data", fast_and_loose=True).ensure() is True
    assert server.folder.stat().st_ctime == made, "copied once"
    assert private.stat().st_mode & 0o777 == 0o700
    assert (folder / "data" / "postgres").stat().st_uid != 0


def test_database_url_is_read_whole() -> None:
    found = embedded.database_settings("postgresql://u%40x:p%2F@h:6543/d?sslmode=require", Path("/nowhere"), pool=7)
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"], found["NAME"]) == (
        "u@x",
        "p/",
        "h",
        "6543",
        "d",
    )
    assert found["OPTIONS"]["sslmode"] == "require"
    assert found["OPTIONS"]["pool"]["max_size"] == 7
    with pytest.raises(SystemExit, match="DATABASE_URL must look like"):
        embedded.database_settings("mysql://h/d", Path("/nowhere"))
