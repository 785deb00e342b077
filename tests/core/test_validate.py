"""Every kind of value at and beyond its edges."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.core import canonical, validate

HUGE = 10**400


@pytest.mark.parametrize("value", ["a", "0", "a.b_c-d", "a" * 63])
def test_slugs(value: str) -> None:
    assert validate.slug(value) is None


@pytest.mark.parametrize("value", ["", "A", "-a", ".a", "a" * 64, "a b", "a\n", "ä", None, 1, b"a", ["a"]])
def test_no_slugs(value: Any) -> None:
    assert validate.slug(value)


@pytest.mark.parametrize(
    ("value", "good"),
    [
        *((good, True) for good in (0, 5, 5.5, 10)),
        *((bad, False) for bad in (10.1, -0.1, True, "5", None, math.nan, math.inf, -math.inf, HUGE, -HUGE, 1j)),
    ],
)
def test_numbers(value: Any, good: bool) -> None:
    assert (validate.number(value, 0, 10) is None) is good


def test_an_exclusive_edge() -> None:
    assert validate.number(0, 0, 10, above=True)
    assert validate.number(1e-9, 0, 10, above=True) is None


@pytest.mark.parametrize(
    ("value", "good"),
    [(0, True), (10, True), (11, False), (-1, False), (5.0, False), (True, False), ("5", False), (HUGE, False)],
)
def test_whole_numbers(value: Any, good: bool) -> None:
    assert (validate.whole(value, 0, 10) is None) is good


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("x", True),
        ("x" * 5, True),
        ("x" * 6, False),
        ("", False),
        ("  ", False),
        ("a\0", False),
        ("\ud800", False),
        (5, False),
    ],
)
def test_texts(value: Any, good: bool) -> None:
    assert (validate.text(value, 1, 5) is None) is good


def test_times() -> None:
    assert validate.moment(datetime(2030, 1, 1, tzinfo=UTC)) is None
    for value in (datetime(2030, 1, 1), "2030-01-01T00:00:00Z", 5, None):
        assert validate.moment(value)


def test_every_field_of_every_kind_refuses_what_it_cannot_be() -> None:
    odd: list[Any] = [[], {}, b"x", 1j, "\0", math.nan, -1, HUGE]
    for kind, known in validate.FIELDS.items():
        for name, field in known.items():
            assert all(field(value) for value in odd), (kind, name)
            assert (field(None) is None) is field.null, (kind, name)


def test_canonical_json_is_one_text_for_equal_values() -> None:
    one, other = {"b": [1, {"y": 1, "x": None}], "a": "ü"}, {"a": "ü", "b": [1, {"x": None, "y": 1}]}
    assert canonical.canonical_json(one) == canonical.canonical_json(other) == '{"a":"ü","b":[1,{"x":null,"y":1}]}'
    assert canonical.content_hash({**one, "key": "k"}) == canonical.content_hash({**other, "key": "l"})
    assert canonical.content_hash({"a": 1}) != canonical.content_hash({"a": "1"}) != canonical.content_hash({"a": True})
    assert len(canonical.content_hash({"a": "\ud800"})) == 32
    with pytest.raises(ValueError, match="JSON"):
        canonical.canonical_json(math.nan)
