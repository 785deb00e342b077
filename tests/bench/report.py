"""Medians and ratios, printed as a table; nothing is asserted about them."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of one run of `work`, garbage collection aside, and its result."""
    gc.collect()
    gc.disable()
    try:
        begun = time.perf_counter()
        result = work()
        return (time.perf_counter() - begun) * 1000, result
    finally:
        gc.enable()


class Table:
    """Rows of measured milliseconds under one title."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: dict[str, list[float]] = {}

    def add(self, name: str, ms: float) -> None:
        """One more measurement."""
        self.rows.setdefault(name, []).append(ms)

    def median(self, name: str) -> float:
        """The median of a row, in milliseconds."""
        return statistics.median(self.rows[name])

    def show(self) -> None:
        """Print median, fastest and slowest of each row."""
        print(f"\n{self.title}\n{'':44}{'median':>10}{'min':>10}{'max':>10}  runs")
        for name, found in self.rows.items():
            numbers = (statistics.median(found), min(found), max(found))
            print(f"{name:44}" + "".join(f"{ms:8.1f}ms" for ms in numbers) + f"{len(found):6}")


class Lines:
    """Rates under one title, with a remark that explains the last one of each name."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: dict[str, list[float]] = {}
        self.remarks: dict[str, str] = {}

    def add(self, name: str, rate: float, remark: str = "") -> None:
        """One more rate."""
        self.rows.setdefault(name, []).append(rate)
        self.remarks[name] = remark

    def median(self, name: str) -> float:
        """The median of a name's rates."""
        return statistics.median(self.rows[name])

    def show(self) -> None:
        """Print median, lowest and highest."""
        print(f"\n{self.title}")
        for name, found in self.rows.items():
            numbers = (statistics.median(found), min(found), max(found))
            print(f"{name:44}" + "".join(f"{rate:10.0f}" for rate in numbers) + f"   {self.remarks[name]}")
