"""Fixtures of the live tests are those of the pages."""

from tests.ui.conftest import browse, fresh, person, pool, system, task

__all__ = ["browse", "fresh", "person", "pool", "system", "task"]
