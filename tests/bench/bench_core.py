"""Processor time of planning per assignment: free slots × active lanes, 200,000 in flight. Asserts no time.

`whole` is a cycle divided by its assignments: it includes reading every lane and load once. `pick` is the slope between
half and all of the free slots: what one more assignment costs. The collector pauses while it measures, as in timeit.
"""

import gc
from collections.abc import Callable
from statistics import median
from time import process_time

import pytest

from dispatch.core.memory import Memory
from dispatch.core.policies import registry
from dispatch.core.types import Snapshot
from tests.bench.worlds import snapshot

ROUNDS = 5


def timed(world: Snapshot) -> tuple[float, int]:
    """Median seconds of one cycle with a warm memory, and its assignments."""
    memory = Memory()
    registry["fair"](world, memory)
    memory.commit()
    times = []
    started = 0
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            start = process_time()
            plan = registry["fair"](world, memory)
            times.append(process_time() - start)
            memory.rollback()
            started = len(plan.assignments)
    finally:
        gc.enable()
    return median(times), started


@pytest.mark.parametrize("caps", [False, True], ids=["plain", "capabilities"])
@pytest.mark.parametrize("lanes", [10, 500, 5_000])
@pytest.mark.parametrize("free", [100, 1_000, 10_000])
def test_planning_time_per_assignment(free: int, lanes: int, caps: bool, capsys: pytest.CaptureFixture[str]) -> None:
    whole, started = timed(snapshot(free, lanes, caps=caps))
    half, fewer = timed(snapshot(free // 2, lanes, caps=caps))
    pick = (whole - half) / max(1, started - fewer)
    assert started == free
    show: Callable[[str], None] = print
    with capsys.disabled():
        show(
            f"core plan {'caps ' if caps else 'plain'} {free:6} slots {lanes:5} lanes: cycle {whole * 1e3:8.2f} ms, "
            f"whole {whole / started * 1e6:6.1f} us, pick {pick * 1e6:6.1f} us"
        )
