"""Fingerprints of errors: the same fault in other words for ids, numbers, addresses and paths gives the same hash."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

LENGTH = 16  #: hex digits
LINE = 400  #: characters of the message that count

# In this order: what is found first may contain what would be found later.
_RULES = [
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), "<uuid>"),
    (re.compile(r"\bhttps?://\S+", re.I), "<url>"),
    (re.compile(r"(?<![\w.])(?:/[\w.@-]+){2,}/?"), "<path>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", re.I), "<hex>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
]


def normalise(message: str) -> str:
    """The message's first line with its changing parts replaced by what kind of thing they are."""
    line = next((line for line in message.splitlines() if line.strip()), "")[:LINE]
    for pattern, word in _RULES:
        line = pattern.sub(word, line)
    return line.strip().lower()


def fingerprint(error: Mapping[str, Any]) -> str:
    """LENGTH hex digits for an error `{"message", "kind"?, "type"?}`; the stack does not count (lines move)."""
    text = "\n".join((str(error.get("type") or ""), normalise(str(error.get("message") or ""))))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:LENGTH]
