"""What every test needs: no caches from the test before, and the rows that migrations made."""

from collections.abc import Iterator

import pytest
from django.db import connection

from dispatch.services import access
from dispatch.store import lanes

SEED = """
INSERT INTO pool (slug) VALUES ('default') ON CONFLICT DO NOTHING;
INSERT INTO pool_leader (pool_id, memory) SELECT id, '{}' FROM pool WHERE slug = 'default' ON CONFLICT DO NOTHING;
INSERT INTO capset (names) VALUES ('{}') ON CONFLICT DO NOTHING;
TRUNCATE attempt, throttle
"""


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    access.forget_keys()
    lanes.forget()
    yield
    access.forget_keys()
    lanes.forget()


@pytest.fixture(autouse=True)
def _migrated_rows(request: pytest.FixtureRequest) -> None:
    """The flush after a transactional test takes the migrations' rows too, and leaves the unmanaged table."""
    marker = request.node.get_closest_marker("django_db")
    if marker and marker.kwargs.get("transaction"):
        request.getfixturevalue("_django_db_helper")
        with connection.cursor() as cursor:
            cursor.execute(SEED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: Playwright leaves an event loop running in their thread, where asyncio.run refuses."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
