"""Counts of this process since its start, for what leaves no rows behind. Only grows; any thread may count."""

import threading
from collections import Counter

_lock = threading.Lock()
_counts: Counter[tuple[str, str]] = Counter()


def count(name: str, label: str, number: int = 1) -> None:
    """Add to one count; 0 makes it known."""
    with _lock:
        _counts[name, label] += number


def of(name: str) -> dict[str, int]:
    """The counts of a name by label."""
    with _lock:
        return {label: number for (found, label), number in _counts.items() if found == name}
