"""Sentences about blockers: every code has one, numbers may be missing, durations read well."""

from typing import get_args

import pytest

from dispatch.api.answers_commands import BlockerCode
from dispatch.core.explain import Blocker
from dispatch.core.sentences import duration, sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (59.9, "59 s"), (60, "1 m 00 s"), (816, "13 m 36 s"), (7500, "2 h 05 m"), (273600, "3 d 04 h")],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_code_has_a_sentence_with_and_without_numbers() -> None:
    kinds = {"pool_budget": "pool", "user_max": "user", "tool_max": "tool", "class_max": "class"}
    for code in get_args(BlockerCode):
        for value, limit in ((3, 4), (None, None)):
            said = sentence(Blocker(code, kinds.get(code, "tenant"), 1, value, limit), "x")
            assert said.endswith("."), code
            assert "{" not in said, code
            assert "None" not in said or value is None, (code, said)
