"""How often a race of the fault cases is repeated: a part of its rounds, or all of them with EVENFLOW_ROUNDS=full.

`make chaos` runs them all.
"""

import os

FULL = os.environ.get("EVENFLOW_ROUNDS") == "full"


def rounds(full: int, part: int) -> range:
    """The rounds of one case."""
    return range(full if FULL else part)
