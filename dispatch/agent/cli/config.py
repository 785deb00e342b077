"""Which server, with which key.

Order: `--url`, EVENFLOW_URL, the file of `evenflow login`, http://127.0.0.1:8000; EVENFLOW_KEY, the file. The file is
$XDG_CONFIG_HOME/evenflow/config.json (~/.config by default), 0600 in a 0700 folder. Its key goes to its own server
only; another address needs EVENFLOW_KEY, so that a wrong --url never hands a key to a stranger.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dispatch.agent.cli.exits import SETUP, Trouble

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Place:
    """A server and the key for it."""

    url: str
    key: str


def path() -> Path:
    """Where `login` stores."""
    home = os.environ.get("XDG_CONFIG_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".config"
    return base / "evenflow" / "config.json"


def load(url: str | None = None) -> Place:
    """The place to talk to. Raises Trouble when there is no key, or the stored one is another server's."""
    stored = read()
    chosen = check_url(url or os.environ.get("EVENFLOW_URL") or (stored.url if stored else DEFAULT_URL))
    key = os.environ.get("EVENFLOW_KEY", "").strip()
    if not key and stored:
        if stored.url != chosen:
            raise Trouble(
                f"the stored key belongs to {stored.url}, not to {chosen}",
                SETUP,
                hint="Set EVENFLOW_KEY for this server, or log in to it: `evenflow login --url …`.",
            )
        key = stored.key
    if not key:
        raise Trouble(
            f"there is no key for {chosen}", SETUP, hint="Run `evenflow login`, or set EVENFLOW_URL and EVENFLOW_KEY."
        )
    return Place(chosen, check_key(key))


def read() -> Place | None:
    """What `login` stored, None when there is nothing. Raises Trouble for a file that is not ours to read."""
    where = path()
    try:
        data = json.loads(where.read_text())
        return Place(str(data["url"]), str(data["key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Trouble(f"{where} cannot be read ({type(error).__name__})", SETUP, hint="Log in again.") from error


def store(place: Place) -> Path:
    """Write the file in one step, readable by its owner only."""
    where = path()
    where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = where.with_name(f".{where.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"url": place.url, "key": place.key}, file)
        new.replace(where)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return where


def check_url(url: str) -> str:
    """`url` without a trailing slash. Raises Trouble unless it is http(s)://host[:port][/prefix]."""
    try:
        parts = urlsplit(url.strip())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not (parts.query or parts.fragment)
        _ = parts.port  # a bad port raises here
    except ValueError:
        good = False
    if not good:
        raise Trouble(f"{url!r} is no address of a server", SETUP, hint="It looks like http://host:port.")
    return url.strip().rstrip("/")


def check_key(key: str) -> str:
    """The key itself. Raises Trouble for what cannot be one (and could break out of a header)."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Trouble("the key has characters that no key has", SETUP, hint="It looks like ef_12345678_….")
    return key
