"""What text the API takes: table of good and bad bodies."""

import json

import pytest

from dispatch.api import parsing
from dispatch.conf import limits
from dispatch.errors import Invalid, TooLarge

BAD = [
    (b"", "body"),
    (b" ", "body"),
    (b"{", "body"),
    (b"{} {}", "body"),
    (b"{'a': 1}", "body"),
    (b'{"a": 01}', "body"),
    (b'{"a": "\x00"}', "body"),
    (b'{"a": "\n"}', "body"),
    (b"\xff{}", "body"),
    (b"\xef\xbb\xbf{}", "body"),
    (b'{"a": "\xed\xa0\x80"}', "body"),  # a surrogate spelled in UTF-8
    (b"NaN", "body"),
    (b'{"a": NaN}', "a"),
    (b'{"a": [1, {"b": Infinity}]}', "a[1].b"),
    (b'{"a": -Infinity}', "a"),
    (b'{"a": 1e400}', "a"),
    (b'{"a": -1e400}', "a"),
    (b'{"a": 9223372036854775808}', "a"),
    (b'{"a": -9223372036854775809}', "a"),
    (b'{"a": ' + b"9" * 5000 + b"}", "a"),
    (b'{"a": 1, "a": 2}', "a"),
    (b'{"x": {"a": 1, "a": 1}}', "x.a"),
    (b'{"a": "\\ud800"}', "a"),
    (b'{"a": {"b": ["ok", "\\uDC00x"]}}', "a.b[1]"),
    (b"[" * 100_000 + b"]" * 100_000, "body"),
    (b'{"a":' * 1000 + b"1" + b"}" * 1000, "body"),
    (b"[" * 100_000, "body"),
]

GOOD = [
    (b"{}", {}),
    (b'{"a": 9223372036854775807}', {"a": 2**63 - 1}),
    (b'{"a": -9223372036854775808}', {"a": -(2**63)}),
    (b'{"a": 1e308}', {"a": 1e308}),
    (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    (b'{"a": "\\u0000"}', {"a": "\x00"}),
    (b'{"a": "[[[["}', {"a": "[[[["}),
    (b'{"a": "' + b'[{\\"\\\\' * 200 + b'"}', {"a": '[{"\\' * 200}),
    (b'{"\xc3\xa9": "\xe2\x82\xac"}', {"é": "€"}),
]


@pytest.mark.parametrize(("raw", "field"), BAD)
def test_bad_text_is_refused_by_its_place(raw: bytes, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parsing.json_body(raw)
    assert [error["field"] for error in refused.value.errors] == [field]


@pytest.mark.parametrize(("raw", "value"), GOOD)
def test_good_text_is_kept_exactly(raw: bytes, value: object) -> None:
    found = parsing.json_body(raw)
    assert found == value
    assert json.dumps(found) == json.dumps(value)


def test_every_fault_of_a_body_is_named() -> None:
    with pytest.raises(Invalid) as refused:
        parsing.json_body(b'{"a": NaN, "b": [1e999, 2], "c": 1, "c": 2}')
    assert [error["field"] for error in refused.value.errors] == ["a", "b[0]", "c"]


def test_a_body_over_the_limit_is_too_large() -> None:
    with pytest.raises(TooLarge):
        parsing.json_body(b" " * (limits().body_bytes + 1))


@pytest.mark.parametrize(
    "kind", [None, "", "application/json", "Application/JSON; charset=UTF-8", "application/x+json"]
)
def test_json_content_types_are_taken(kind: str | None) -> None:
    assert parsing.json_body(b"{}", kind) == {}


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_other_content_types_are_refused(kind: str) -> None:
    with pytest.raises(Invalid) as refused:
        parsing.json_body(b"{}", kind)
    assert refused.value.errors[0]["field"] == "body"


def test_depth_counts_levels() -> None:
    assert parsing.depth(1) == 0
    assert parsing.depth([1, {"a": []}]) == 3


@pytest.mark.parametrize(
    ("path", "key", "joined"),
    [("", "a", "a"), ("a", "b", "a.b"), ("a", 3, "a[3]"), ("", "\x00\ud800", "\\x00\\ud800"), ("", "é", "é")],
)
def test_paths_are_always_text_that_can_be_sent(path: str, key: str | int, joined: str) -> None:
    assert parsing.join(path, key) == joined
    parsing.join(path, key).encode()
