"""The search words of the console: `state:dead tenant:sales age>10m error:"timed out"` → filters of GET /tasks.

A word is `name:value`; quotes keep spaces together. Known: state class tenant pool user worker cap tool type error key
fingerprint order, and `age>DURATION` (queued and startable for longer). All words must be met; each may be given once.
"""

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches

from dispatch.agent.cli.exits import USAGE, Trouble
from dispatch.agent.cli.grammar import duration

NAMES = {
    "state": "state",
    "class": "class",
    "tenant": "tenant",
    "pool": "pool",
    "user": "user",
    "worker": "worker",
    "cap": "capability",
    "capability": "capability",
    "tool": "tool",
    "type": "type",
    "error": "error",
    "key": "key",
    "fingerprint": "fingerprint",
    "order": "order",
}
WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
AGE = re.compile(r"age\s*(>=|>|:>|:)(.+)")
HELP = 'search words: state: class: tenant: pool: user: worker: cap: tool: type: error:"…" key: fingerprint: age>10m'


def filters(words: Sequence[str]) -> dict[str, str | float]:
    """The query of these words. Raises Trouble naming the word that is none."""
    found: dict[str, str | float] = {}
    for word in [match.group() for text in words for match in WORD.finditer(text)]:
        name, value = _read(word)
        if name in found:
            raise Trouble(f"{word}: {name} is given twice", USAGE)
        found[name] = value
    return found


def _read(word: str) -> tuple[str, str | float]:
    plain = word.replace('"', "")
    if match := AGE.fullmatch(plain):
        try:
            return "min_age_s", duration(match[2])
        except argparse.ArgumentTypeError as error:
            raise Trouble(f"{plain}: {error}", USAGE) from error
    name, colon, value = plain.partition(":")
    if not colon or name not in NAMES:
        raise Trouble(f"{plain!r} is no search word", USAGE, hint=_hint(name))
    if not value:
        raise Trouble(f"{plain}: the value is missing", USAGE)
    return NAMES[name], value


def _hint(name: str) -> str:
    near = [f"Did you mean {known}:…? " for known in get_close_matches(name, NAMES, n=1)]
    return f"{''.join(near)}Words are name:value ({', '.join(NAMES)}) and age>10m."
