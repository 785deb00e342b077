"""Canonical JSON: one text for equal values, so that a repeated key can be told from a reused one."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; raises ValueError for NaN and Infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(fields: Mapping[str, Any]) -> bytes:
    """SHA-256 of a submitted task's canonical JSON: all fields that were sent except `key`."""
    content = {name: value for name, value in fields.items() if name != "key"}
    return hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).digest()
