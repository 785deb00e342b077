"""A control plane and a client of it for each test."""

from collections.abc import Iterator

import pytest

from dispatch.agent import Client
from tests.agent.server import KEY, ControlPlane


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        yield running


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    with Client(plane.url, KEY, name="w1", capabilities=["code"], slots=2, retry_for_s=5, sigterm=False) as made:
        yield made
