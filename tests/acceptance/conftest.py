"""Fixtures that start the real product."""

from collections.abc import Iterator

import pytest

from tests.acceptance.harness import Product, running


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """One running product for all tests of a module."""
    with running() as started:
        yield started
