"""The newest dead letters and the recent commands."""

from collections.abc import Mapping
from typing import Any

from dispatch.live import words
from dispatch.live.cells import palette

COMMANDS = 6
ERROR = 160  #: characters of an error text in a row


def cells(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """One row per dead letter, newest first."""
    colours = palette.palette(row["slug"] for row in snapshot["classes"])
    dead = snapshot["dead"]
    found: dict[str, Any] = {
        "dead": [str(item["id"]) for item in dead["items"]],
        "dead.some": bool(dead["items"]),
        "dead.version": f"{dead['total']}.{dead['items'][0]['id'] if dead['items'] else 0}.{dead.get('decided', 0)}",
        "dead.total": f"{words.count(dead['total'])} in all, {words.count(dead['new_1h'])} new in 1 h",
    }
    for item in dead["items"]:
        found.update((f"d.{item['id']}.{key}", value) for key, value in _letter(item, colours).items())
    return found


def _letter(item: Mapping[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": words.count(item["id"]),
        "type": item["type"] or "task",
        "queue": f"{item['class']} · {item['tenant']}",
        "c": colours.get(item["class"], palette.OTHER),
        "reason": (item["reason"] or "").replace("_", " "),
        "error": error_line(item["error"]),
        "at": item["finished_at"],
        "attempts": words.plural(item["attempts"], "attempt"),
    }


def error_line(error: Any) -> str:
    """The first line of an error, cut."""
    message = error.get("message", "") if isinstance(error, Mapping) else str(error or "")
    line = next((line.strip() for line in str(message).splitlines() if line.strip()), "")
    return line if len(line) <= ERROR else line[: ERROR - 1] + "…"


def commands(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Recent commands by place in the list."""
    rows = snapshot["commands"][:COMMANDS]
    found: dict[str, Any] = {"commands": [str(place) for place in range(len(rows))], "commands.some": bool(rows)}
    for place, row in enumerate(rows):
        found |= {
            f"m.{place}.at": row["at"],
            f"m.{place}.actor": row["actor"],
            f"m.{place}.text": row["text"],
            f"m.{place}.reason": row["reason"] or "",
        }
    return found
