"""Errors that are the same fault share a fingerprint; different faults do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.core.fingerprint import LENGTH, fingerprint, normalise


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("timeout after 30.5 s", "timeout after 7 s"),
        ("no such file: /srv/data/a.txt", "no such file: /home/ann/b/c.bin"),
        ("order 'A-17' is locked", 'order "B" is locked'),
        ("at 0x7f3a", "at 0xBEEF01"),
        ("id 8f14e45f-ceea-467f-a9c1-0242ac120002 gone", "id 00000000-0000-0000-0000-000000000000 gone"),
        ("commit deadbeef01 missing", "commit 0123456789abcdef missing"),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example failed"),
        ("since 2026-11-30T10:00:00Z", "since 2025-01-02 03:04:05.678+02:00"),
        ("refused\n  at line 3", "refused\n  at line 99 of another stack"),
        ("  Refused ", "refused"),
    ],
)
def test_changing_parts_do_not_count(one: str, two: str) -> None:
    assert fingerprint({"message": one}) == fingerprint({"message": two})


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"message": "timeout"}, {"message": "refused"}),
        ({"message": "x", "type": "KeyError"}, {"message": "x", "type": "ValueError"}),
        ({"message": "read failed"}, {"message": "write failed"}),
        ({"message": "I/O error"}, {"message": "I/O"}),
    ],
)
def test_different_faults_differ(one: dict[str, str], two: dict[str, str]) -> None:
    assert fingerprint(one) != fingerprint(two)


def test_kind_and_stack_do_not_count() -> None:
    assert fingerprint({"message": "x", "kind": "permanent", "stack": "a"}) == fingerprint({"message": "x"})


@given(st.text(), st.text())
def test_any_text_has_a_fingerprint(message: str, kind: str) -> None:
    found = fingerprint({"message": message, "type": kind})
    assert len(found) == LENGTH
    assert int(found, 16) >= 0


@given(st.text(max_size=200))
def test_normalising_twice_changes_nothing_that_matters(message: str) -> None:
    once = normalise(message)
    assert "\n" not in once
    assert not any(digit in once for digit in "0123456789")


def test_a_long_hostile_message_is_quick() -> None:
    assert len(fingerprint({"message": "/a" * 500_000 + "'" * 500_000})) == LENGTH
