"""`python -m pytest tests/access/write.py` writes table.py anew from what the product answers now."""

from pathlib import Path

import pytest

from tests.access import table
from tests.access import test_matrix as matrix

HEAD = '''"""Who is answered how.

API: keys {keys};
then | for the foreign department keys {bound}.
PAGES, COMMANDS, TOPICS: persons {persons};
then | for the foreign department {insiders}. What is about oneself: anonymous, nobody.
TOOLS: the scope without which a tool is not there. HARMLESS: answers 200, but tells nothing.
Written by tests/access/write.py, read by people: every 2xx of a row is a right.
"""

'''


@pytest.mark.django_db
def test_write() -> None:
    """Not a test by itself: it is never collected by its name."""
    from django.db import transaction

    found = {}
    for name, make in (
        ("API", lambda: matrix.api()[0]),
        ("PAGES", lambda: matrix.console("GET")[0]),
        ("COMMANDS", lambda: matrix.console("POST")[0]),
        ("TOPICS", lambda: matrix.live()[0]),
        ("TOOLS", matrix.tools),
    ):
        with transaction.atomic():
            found[name] = make()
            transaction.set_rollback(True)
    lines = [
        HEAD.format(
            keys=", ".join(matrix.KEYS), bound=", ".join(matrix.BOUND), persons=", ".join(matrix.PERSONS),
            insiders=", ".join(matrix.INSIDERS),
        )
    ]  # fmt: skip
    for name, rows in found.items():
        lines.append(f"{name} = {{\n" + "".join(f'    "{key}": "{row}",\n' for key, row in rows.items()) + "}\n")
    lines.append(f"HARMLESS = {getattr(table, 'HARMLESS', set())!r}\n")
    Path(table.__file__).write_text("".join(lines))
