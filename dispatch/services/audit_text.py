"""Audit entries as sentences for people: "patch class critical: weight 6 → 3"."""

from collections.abc import Mapping
from typing import Any

SILENT = frozenset({"version", "updated_at", "created_at", "paused_at", "paused_by", "pause_reason", "warnings"})


def sentence(entry: Mapping[str, Any]) -> str:
    """What was done, to what, and which values changed; plain text, never markup."""
    verb = entry["action"].split("_")[0]
    target = f"{verb} {entry['target_kind']} {entry['target']}"
    changed = changes(entry["before"], entry["after"])
    return f"{target}: {', '.join(changed)}" if changed else target


def changes(before: Any, after: Any) -> list[str]:
    """The values that differ between two objects, as "name old → new"."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return []
    names = [name for name in after if name in before and name not in SILENT and before[name] != after[name]]
    return [f"{name} {_word(before[name])} → {_word(after[name])}" for name in names]


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
