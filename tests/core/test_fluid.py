"""Fluid shares by hand-made cases and properties."""

from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.core.fluid import Want, fill


def want(weight: int | str, demand: int = 10**6, **fields: int) -> Want:
    return Want(weight=F(weight), demand=demand, **fields)


@pytest.mark.parametrize(
    ("capacity", "wants", "expected"),
    [
        (100, {"a": want(6), "b": want(3), "c": want(1)}, {"a": 60, "b": 30, "c": 10}),
        (100, {"a": want(6, 20), "b": want(3), "c": want(1)}, {"a": 20, "b": 60, "c": 20}),
        (100, {"a": want(6), "b": want(3), "c": want(1, min=25)}, {"a": 50, "b": 25, "c": 25}),
        (100, {"a": want(6, max=30), "b": want(3), "c": want(1)}, {"a": 30, "b": F(105, 2), "c": F(35, 2)}),
        (10, {"a": want(1, min=8), "b": want(1, min=12)}, {"a": 4, "b": 6}),
        (10, {"a": want(1, min=8, demand=2), "b": want(1)}, {"a": 2, "b": 8}),
        (10, {"a": want(0), "b": want(1, 4)}, {"a": 6, "b": 4}),
        (10, {"a": want(0), "b": want(1)}, {"a": 0, "b": 10}),
        (10, {"a": want(0, min=2), "b": want(1)}, {"a": 2, "b": 8}),
        (10, {"a": want(1, level=2), "b": want(1, 7)}, {"a": 3, "b": 7}),
        (10, {"a": want(1, level=2, min=4), "b": want(1)}, {"a": 4, "b": 6}),
        (10, {"a": want("0.001"), "b": want(1000)}, {"a": F(10, 1000001), "b": F(10000000, 1000001)}),
        (10, {"a": want(1, 2), "b": want(1, 3)}, {"a": 2, "b": 3}),
        (0, {"a": want(1)}, {"a": 0}),
        (5, {"a": want(1, max=0), "b": want(1)}, {"a": 0, "b": 5}),
        (5, {}, {}),
    ],
)
def test_hand_made(capacity: int, wants: dict[str, Want], expected: dict[str, F]) -> None:
    assert fill(capacity, wants) == expected


wants = st.dictionaries(
    st.integers(0, 9),
    st.builds(
        Want,
        weight=st.fractions(0, 9),
        demand=st.integers(0, 40),
        min=st.integers(0, 9),
        max=st.none() | st.integers(0, 30),
        level=st.integers(1, 3),
    ),
)


@given(st.integers(0, 60), wants)
def test_capacity_is_used_up_and_nobody_gets_more_than_wanted(capacity: int, world: dict[int, Want]) -> None:
    slots = fill(capacity, world)
    assert set(slots) == set(world)
    assert sum(slots.values()) == min(capacity, sum(one.high for one in world.values()))
    for key, one in world.items():
        assert 0 <= slots[key] <= one.high
    if sum(one.low for one in world.values()) <= capacity:
        assert all(slots[key] >= one.low for key, one in world.items())


@given(st.integers(1, 60), wants, st.integers(0, 9), st.fractions(0, 9))
def test_more_weight_never_means_less(capacity: int, world: dict[int, Want], key: int, more: F) -> None:
    if key not in world:
        return
    one = world[key]
    heavier = Want(weight=one.weight + more, demand=one.demand, min=one.min, max=one.max, level=one.level)
    assert fill(capacity, world | {key: heavier})[key] >= fill(capacity, world)[key]
