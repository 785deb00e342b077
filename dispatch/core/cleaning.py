"""Text that PostgreSQL cannot store becomes U+FFFD: NUL and lone surrogates, in values and keys, at any depth."""

import re
from typing import Any

CUT_MARK = " … [cut]"
_BAD = re.compile("[\0\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text with each character that cannot be stored replaced."""
    return _BAD.sub("�", text)


def clean(value: Any) -> tuple[Any, bool]:
    """A JSON value with cleaned texts, and whether anything changed. An untouched value comes back as it is."""
    if isinstance(value, str):
        cleaned = clean_text(value)
        return (cleaned, True) if cleaned != value else (value, False)
    if isinstance(value, dict):
        pairs = [(clean(key), clean(item)) for key, item in value.items()]
        changed = any(key[1] or item[1] for key, item in pairs)
        return ({key[0]: item[0] for key, item in pairs}, True) if changed else (value, False)
    if isinstance(value, list | tuple):
        items = [clean(item) for item in value]
        return ([item for item, _ in items], True) if any(changed for _, changed in items) else (value, False)
    return value, False


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, marked when something was cut."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - len(CUT_MARK.encode())].decode(errors="ignore") + CUT_MARK
