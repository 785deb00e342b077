"""The search line of the task list: `state:queued class:batch tenant:legal age>10m cost>2 args.repo:"x" some words`.

Words without a name search the error text; a lone number is a task. The same filters as GET /api/v1/tasks, so the
services check the values; `args.<path>` compares one value inside the payload. Chips and the line say the same: `write`
is the opposite of `parse`.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

SHORT = {"cap": "capability"}
NAMES = (
    "state",
    "class",
    "tenant",
    "user",
    "worker",
    "cap",
    "tool",
    "type",
    "error",
    "key",
    "fingerprint",
    "pool",
    "id",
)
#: what a name means, for the list that opens while typing
HELP = {
    "state": "queued, leased, dead …",
    "class": "a class of work",
    "tenant": "a department",
    "user": "who submitted it",
    "worker": "who holds it now",
    "cap": "a capability it needs",
    "tool": "a tool it uses",
    "type": "its type",
    "error": "a part of the error text",
    "key": "its idempotency key",
    "fingerprint": "what it died of",
    "pool": "a pool",
    "id": "numbers, with commas",
    "age>": "waits longer than 10m",
    "cost>": "estimated to cost more",
    "args.": "a value in the payload",
}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE = re.compile(r"age>(\d+(?:\.\d+)?)([smhd]?)")
_COST = re.compile(r"cost>(\d+(?:\.\d+)?)")
_NAME = re.compile(r"[a-z_]+|args\.[^:\s]+")


def parse(text: str) -> dict[str, str]:
    """Filters by the names of the API; unknown names stay, so that the service can refuse them by name."""
    found: dict[str, str] = {}
    words: list[str] = []
    for part in _split(text):
        name, colon, value = part.partition(":")
        if age := _AGE.fullmatch(part):
            found["min_age_s"] = f"{float(age[1]) * UNITS[age[2] or 's']:g}"
        elif cost := _COST.fullmatch(part):
            found["min_cost"] = cost[1]
        elif colon and value and _NAME.fullmatch(name):
            found[SHORT.get(name, name)] = value
        elif part:
            words.append(part)
    if words:
        found["error"] = " ".join([*words, *([found["error"]] if "error" in found else [])])
    return found


def write(filters: Mapping[str, str]) -> str:
    """The search line of some filters, the opposite of `parse`."""
    return " ".join(chip(name, value) for name, value in filters.items())


def chip(name: str, value: str) -> str:
    """One filter as it is typed."""
    if name == "min_age_s":
        return f"age>{short_age(float(value))}"
    if name == "min_cost":
        return f"cost>{value}"
    return f"{name}:{shlex.quote(value) if re.search(r'[^A-Za-z0-9._,~-]', value) else value}"


def label(name: str, value: str) -> tuple[str, str]:
    """Name, with its sign, and value of a chip."""
    if name == "min_age_s":
        return "age >", short_age(float(value))
    if name == "min_cost":
        return "cost >", value
    return f"{name}:", value


def short_age(seconds: float) -> str:
    """Seconds in the largest unit that holds them without rest: `10m`, `90s`."""
    for unit in ("d", "h", "m"):
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def advice(names: Iterable[str]) -> str:
    """What to type instead of names that are none."""
    known = [*NAMES, *SHORT.values(), "age>", "cost>"]
    hints = []
    for name in names:
        near = get_close_matches(name, known, n=1)
        hints.append(f"“{name}:” is no search word{f', did you mean {near[0]}:' if near else ''}")
    return (
        f"{'; '.join(hints)}. Known: {' '.join(f'{name}:' for name in NAMES)} age> cost> args.<path>:" if hints else ""
    )


def task_number(text: str) -> int | None:
    """The id in `481902`, `481,902`, `#481902` or `id:481902`."""
    found = re.fullmatch(r"(?:#|id:)?\s*(\d[\d,]*)", text.strip())
    return int(found[1].replace(",", "")) if found and _one_number(found[1]) else None


def _one_number(digits: str) -> bool:
    """Commas only where they part thousands: `1,2` are two tasks, `481,902` is one."""
    return "," not in digits or re.fullmatch(r"\d{1,3}(,\d{3})+", digits) is not None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()
