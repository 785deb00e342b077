"""`python -m tests.locks`: the lock files are whole, and what is installed is exactly what they say. Needs no network.

Every requirement has one exact version and hashes, no address is named, everything that pyproject.toml asks for is
there, and no package is installed in another version.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
NAME = re.compile(r"^[A-Za-z0-9._-]+")


def plain(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Path, elsewhere: set[str]) -> tuple[dict[str, str], list[str]]:
    """Versions by name, and what is wrong with the file; `elsewhere` gets the names that only some systems need."""
    found: dict[str, str] = {}
    wrong = []
    for entry in re.split(r"\n(?=[A-Za-z0-9])", path.read_text()):
        lines = [line for line in entry.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if not lines:
            continue
        match = PINNED.match(lines[0])
        if match is None:
            wrong.append(f"{path.name}: {lines[0]!r} has no exact version")
            continue
        if "--hash=sha256:" not in entry:
            wrong.append(f"{path.name}: {match[1]} has no hash")
        if "://" in "".join(lines):
            wrong.append(f"{path.name}: {match[1]} names an address")
        found[plain(match[1])] = match[2]
        if ";" in lines[0]:
            elsewhere.add(plain(match[1]))
    return found, wrong


def asked() -> set[str]:
    """Names that pyproject.toml asks for, its groups and the extra that every start needs too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [project["project"].get("dependencies", []), project["project"]["optional-dependencies"]["embedded"]]
    groups += project.get("dependency-groups", {}).values()
    texts = [text for group in groups for text in group if isinstance(text, str)]
    return {plain(match[0]) for text in texts if (match := NAME.match(text))}


def faults() -> list[str]:
    """Everything that is wrong, as sentences."""
    elsewhere: set[str] = set()
    run, wrong = read(ROOT / "requirements.lock", elsewhere)
    dev, more = read(ROOT / "requirements-dev.lock", elsewhere)
    wrong += more
    wrong += [f"{name} is locked as {run[name]} and {dev[name]}" for name in run.keys() & dev if run[name] != dev[name]]
    wrong += [
        f"pyproject.toml asks for {name}, which no lock holds" for name in sorted(asked() - run.keys() - dev.keys())
    ]
    for name, locked in sorted({**dev, **run}.items()):
        try:
            if (there := version(name)) != locked:
                wrong.append(f"{name} {there} is installed, {locked} is locked")
        except PackageNotFoundError:
            wrong += [] if name in elsewhere else [f"{name} is locked and not installed"]
    return wrong


if __name__ == "__main__":
    problems = faults()
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
