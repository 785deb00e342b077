"""From bytes to JSON values: the one place that knows what text is refused, for ninja and the hot plane alike.

Refused with `Invalid` (422) on `body` or the path: text that is not UTF-8 or not JSON, NaN, Infinity, numbers out of
range (1e400, integers beyond 64 bits signed), doubled keys, lone surrogates, too deep nesting. Bodies over the limit
are `TooLarge` (413). Integers within 64 bits are kept exactly. NUL is legal JSON, so the schemas decide about it.

The usual body is parsed once, by a shared decoder that only notices that something is wrong; the path of the fault is
looked for afterwards.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from dispatch.conf import limits
from dispatch.errors import Invalid, TooLarge

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
ENVELOPE = 8  #: levels of our own schemas around a free JSON value

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STEP = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEP)


class _Fault(ValueError):
    """Something that JSON or this API does not permit; the message is for the caller."""


def _constant(name: str) -> Any:
    raise _Fault(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Fault("the number is out of range")
    return value


def _int(text: str) -> int:
    value = int(text) if len(text) <= 20 else INT_MAX + 1
    if not INT_MIN <= value <= INT_MAX:
        raise _Fault("integers are limited to 64 bits")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Fault("a key is given twice")
    return value


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float, parse_int=_int, object_pairs_hook=_object)


def json_body(raw: bytes, content_type: str | None = None) -> Any:
    """The JSON value of a request body, checked as the module docstring says.

    `content_type` is the header; absent means JSON. Raises `Invalid` or `TooLarge`.
    """
    limit = limits()
    if len(raw) > limit.body_bytes:
        raise TooLarge(f"A body holds at most {limit.body_bytes} bytes.")
    if not raw:
        raise empty()
    _check_type(content_type)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Invalid(("body", "the text is not UTF-8")) from None
    _check_depth(raw, limit.depth + ENVELOPE)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except _Fault:
        raise _located(text) from None
    if b"\\ud" in raw or b"\\uD" in raw:
        faults = list(find(value, lambda text: "a lone surrogate is not text" if has_surrogate(text) else None))
        if faults:
            raise Invalid(*faults)
    return value


def empty() -> Invalid:
    """The refusal of a call that came without its body."""
    return Invalid(("body", "a JSON body is expected, this one is empty"))


def _check_type(content_type: str | None) -> None:
    if not content_type:
        return
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Invalid(("body", "send JSON with Content-Type: application/json"))
    name, _, charset = parameters.strip().partition("=")
    if name == "charset" and charset.strip('" ') not in {"utf-8", "utf8"}:
        raise Invalid(("body", "the text must be UTF-8"))


def _check_depth(raw: bytes, limit: int) -> None:
    """Bound the nesting before the decoder recurses; brackets inside strings do not count."""
    if raw.count(b"[") + raw.count(b"{") <= limit:
        return
    brackets = _STRING.sub(b"", raw).translate(None, delete=_NO_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > limit:
        raise Invalid(("body", f"nesting is limited to {limits().depth} levels"))


def _not_json(error: json.JSONDecodeError) -> Invalid:
    return Invalid(("body", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"))


class _Mark:
    """Stands in the parsed value where a fault was, so that its path can be named."""

    def __init__(self, message: str) -> None:
        self.message = message


def _marking(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def marked(text: Any) -> Any:
        try:
            return check(text)
        except _Fault as fault:
            return _Mark(str(fault))

    return marked


def _marked_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        value[key] = _Mark("the key is given twice") if key in value else item
    return value


def _located(text: str) -> Invalid:
    """Parse again, marking the faults, and name the path of each."""
    decoder = json.JSONDecoder(
        parse_constant=_marking(_constant),
        parse_float=_marking(_float),
        parse_int=_marking(_int),
        object_pairs_hook=_marked_object,
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        return _not_json(error)
    return Invalid(*find(value, lambda item: item.message if isinstance(item, _Mark) else None))


def has_surrogate(item: Any) -> bool:
    """Whether this is text with half of a surrogate pair, which UTF-8 cannot say."""
    if not isinstance(item, str) or item.isascii():
        return False
    try:
        item.encode()
    except UnicodeEncodeError:
        return True
    return False


def find(value: Any, judge: Callable[[Any], str | None], path: str = "") -> Iterator[tuple[str, str]]:
    """Every (path, message) at which `judge` has a message for a key or a leaf; the root is `body`."""
    if isinstance(value, dict):
        for key, item in value.items():
            here = join(path, key)
            if message := judge(key):
                yield here, message
            yield from find(item, judge, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find(item, judge, f"{path}[{index}]")
    elif message := judge(value):
        yield path or "body", message


def join(path: str, key: str | int) -> str:
    """The path one level down: `tasks[3].payload`; text that cannot be shown is escaped, long keys are cut."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    shown = key[:80] if key.isprintable() else key[:80].encode("unicode_escape").decode()
    return f"{path}.{shown}" if path else shown


def depth(value: Any) -> int:
    """Levels of nesting: 0 for a plain value, 1 for a flat list or object."""
    level, row = 0, [value]
    while row := [item for item in row if isinstance(item, dict | list)]:
        level += 1
        row = [child for item in row for child in (item.values() if isinstance(item, dict) else item)]
    return level
