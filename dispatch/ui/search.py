"""The search line of the task list: `state:queued class:batch tenant:legal worker:ocr-01 age>10m some words`.

Words without a name search the error text; a lone number is a task. The same filters as GET /api/v1/tasks, so the
services check the values.
"""

import re
import shlex
from collections.abc import Mapping

NAMES = {"state", "class", "tenant", "user", "worker", "capability", "tool", "type", "key", "fingerprint", "error"}
SHORT = {"cap": "capability"}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE = re.compile(r"^age>(\d+(?:\.\d+)?)([smhd]?)$")


def parse(text: str) -> dict[str, str]:
    """Filters by the names of the API; unknown names stay, so that the service can refuse them by name."""
    found: dict[str, str] = {}
    words: list[str] = []
    for part in _split(text):
        name, colon, value = part.partition(":")
        if age := _AGE.match(part):
            found["min_age_s"] = f"{float(age[1]) * UNITS[age[2] or 's']:g}"
        elif colon and value and re.fullmatch(r"[a-z_]+", name):
            found[SHORT.get(name, name)] = value
        elif part:
            words.append(part)
    if words:
        found["error"] = " ".join([*words, *([found["error"]] if "error" in found else [])])
    return found


def write(filters: Mapping[str, str]) -> str:
    """The search line of some filters, the opposite of `parse`."""
    parts = []
    for name, value in filters.items():
        if name == "min_age_s":
            parts.append(f"age>{float(value):g}s")
        else:
            parts.append(f"{name}:{shlex.quote(value) if re.search(r'[^A-Za-z0-9._,~-]', value) else value}")
    return " ".join(parts)


def task_number(text: str) -> int | None:
    """The id in `481902`, `481,902`, `#481902` or `id:481902`."""
    found = re.fullmatch(r"(?:#|id:)?\s*(\d[\d,]*)", text.strip())
    return int(found[1].replace(",", "")) if found else None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()
