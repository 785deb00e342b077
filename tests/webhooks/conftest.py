"""A small world, and a receiver on loopback, which has to be permitted."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.services.world import make_world
from tests.webhooks.receiver import Receiver, receiving


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.EVENFLOW_WEBHOOK_PRIVATE = True
    with receiving() as made:
        yield made
