"""A control plane, and workers of it that are ended with the test."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.console import Console
from tests.agent.work.worker import Worker


@pytest.fixture
def console() -> Iterator[Console]:
    with Console() as running:
        yield running


@pytest.fixture
def work(console: Console, tmp_path: Path) -> Iterator[Any]:
    started: list[Worker] = []

    def start(command: str, *more: str) -> Worker:
        started.append(Worker(console, tmp_path, command.replace("{folder}", str(tmp_path)), *more))
        return started[-1]

    yield start
    for worker in started:
        worker.stop(signal.SIGKILL)
