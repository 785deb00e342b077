"""A server that speaks the contract, a user with a key and an empty home, and the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatch.agent.cli import bulk, fleet, main
from tests.agent.commands.world import Run
from tests.agent.console import Console
from tests.agent.server import KEY


@pytest.fixture
def console() -> Iterator[Console]:
    with Console() as running:
        yield running


@pytest.fixture(autouse=True)
def place(console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a user with a key, and an empty home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("EVENFLOW_URL", console.url)
    monkeypatch.setenv("EVENFLOW_KEY", KEY)
    monkeypatch.setattr(fleet, "POLL_S", 0.01)
    monkeypatch.setattr(bulk, "POLL_S", 0.01)
    return tmp_path / "evenflow" / "config.json"


@pytest.fixture
def evenflow(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command: (exit code, stdout, stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capsys.readouterr())

    return run
