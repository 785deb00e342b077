"""What PostgreSQL cannot store is replaced, everything else stays the very same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.core.cleaning import CUT_MARK, clean, cut

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("a\0b", "a�b"),
        ("\ud800", "�"),
        ({"k\0": 1}, {"k�": 1}),
        ([1, ["\0", {"x": "\udfff"}]], [1, ["�", {"x": "�"}]]),
    ],
)
def test_bad_characters_are_replaced_at_any_depth(dirty: Any, cleaned: Any) -> None:
    assert clean(dirty) == (cleaned, True)


@given(JSON)
def test_clean_values_can_be_stored_and_are_told_apart(value: Any) -> None:
    cleaned, changed = clean(value)
    text = json.dumps(cleaned, ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert changed == (cleaned != value)
    if not changed:
        assert cleaned is value


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(40, 80))
def test_a_cut_text_fits_and_is_marked(text: str, limit: int) -> None:
    done = cut(text, limit)
    assert len(done.encode()) <= limit
    assert done == text or (done.endswith(CUT_MARK) and text.startswith(done.removesuffix(CUT_MARK)))
