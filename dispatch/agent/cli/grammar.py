"""How a command declares its words, and how its values are read.

Readers raise argparse.ArgumentTypeError, which argparse shows as wrong usage.
"""

import argparse
import json
import math
import re
from datetime import datetime
from typing import Any


class Grammar:
    """Hands out subparsers that know the common options."""

    def __init__(
        self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]", common: argparse.ArgumentParser
    ):
        self._commands = commands
        self.common = common

    def command(self, name: str, help: str) -> argparse.ArgumentParser:
        """A new command's parser; `help` is its line in `evenflow --help`."""
        return self._commands.add_parser(name, help=help, description=help, parents=[self.common])


UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")
RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")


def duration(text: str) -> float:
    """Seconds from `90`, `90s`, `10m`, `2h`, `1d`, `1h30m`."""
    found = list(DURATION.finditer(text))
    parts = [match for match in found if match.group()]
    if not parts or "".join(match.group() for match in parts) != text or (len(parts) > 1 and not _all_units(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration (90s, 10m, 2h, 1d)")
    return sum(float(match[1]) * UNITS[match[2]] for match in parts)


def _all_units(parts: "list[re.Match[str]]") -> bool:
    return all(match[2] for match in parts)


def rate(text: str) -> float:
    """A number per second from `5`, `5/s`, `30/m`, `100/h`; above 0."""
    match = RATE.fullmatch(text)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate (5/s, 30/m)")
    return float(match[1]) / UNITS[match[2] or "s"]


def fraction(text: str) -> float:
    """0..1 from `0.2` or `20%`."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no fraction (20%, 0.2)")
    return value


def time(text: str) -> str:
    """An RFC 3339 time with its zone, as it was given."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time with a zone (2030-01-31T08:00:00Z)")
    return text


def task_id(text: str) -> int:
    """A task's number."""
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no task id")
    return int(text)


def strict_json(text: str) -> Any:
    """JSON as the API takes it: no NaN, Infinity or 1e400. Raises ValueError with the place."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
