"""Typed readers for environment variables: a bad value stops the start with one sentence that names it."""

import argparse
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class BadSetting(SystemExit):
    """A setting that cannot be used; the message is the whole explanation."""


def take_data_directory(argv: list[str]) -> None:
    """Turn `--data DIR` of a command line into EVENFLOW_DATA, which has to be known before the settings are read.

    `demo` has a default of its own, so that it never fills a real installation with made-up departments.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--data")
    try:
        given = parser.parse_known_args(argv[2:])[0].data
    except argparse.ArgumentError:
        return  # the command's own parser says what is wrong
    if not given and argv[1:2] == ["demo"] and not os.environ.get("EVENFLOW_DATA"):
        given = Path(argv[0]).absolute().parent / ".demo"
    if given:
        os.environ["EVENFLOW_DATA"] = str(Path(given).absolute())


def text(name: str, default: str = "") -> str:
    """The variable as it is, or the default where it is unset or empty."""
    return os.environ.get(name) or default


def flag(name: str, default: bool = False) -> bool:
    """1/true/yes/on or 0/false/no/off, in any case."""
    raw = os.environ.get(name, "").strip().lower()
    if raw == "":
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise BadSetting(f"{name} must be 1 or 0, not {raw!r}.")


def number(name: str, default: int, low: int = 0, high: int = 2**31 - 1) -> int:
    """A whole number within low..high."""
    raw = os.environ.get(name, "").strip()
    if raw == "":
        return default
    try:
        value = int(raw)
    except ValueError:
        raise BadSetting(f"{name} must be a whole number, not {raw!r}.") from None
    if not low <= value <= high:
        raise BadSetting(f"{name} must be within {low}..{high}, not {value}.")
    return value


def choice(name: str, *allowed: str) -> str:
    """One of these words; the first one is the default."""
    raw = text(name, allowed[0])
    if raw not in allowed:
        raise BadSetting(f"{name} must be {' or '.join(allowed)}, not {raw!r}.")
    return raw


def words(name: str, default: list[str]) -> list[str]:
    """A comma-separated list."""
    raw = os.environ.get(name, "")
    return [word.strip() for word in raw.split(",") if word.strip()] or default


def oidc(issuer: str, client_id: str, client_secret: str, name: str, trust_email: bool) -> list[dict[str, Any]]:
    """allauth's app for one OpenID Connect provider; none without an issuer."""
    issuer = issuer.rstrip("/")
    if not issuer:
        return []
    if urlsplit(issuer).scheme not in {"https", "http"} or not urlsplit(issuer).netloc:
        raise BadSetting("EVENFLOW_OIDC_ISSUER must be an address that starts with https://.")
    if not client_id or not client_secret:
        raise BadSetting(
            "EVENFLOW_OIDC_CLIENT_ID and EVENFLOW_OIDC_CLIENT_SECRET must be set with EVENFLOW_OIDC_ISSUER."
        )
    return [
        {
            "provider_id": "company",
            "name": name,
            "client_id": client_id,
            "secret": client_secret,
            "settings": {"server_url": issuer, "verified_email": trust_email},
        }
    ]


def secret(name: str, data_dir: Path, needed: bool) -> str:
    """The variable, else a secret made once in the data directory (0600).

    `needed`: with an external database several machines must share the secret, so it has to be given.
    """
    given = os.environ.get(name, "")
    if given:
        return given
    if needed:
        raise BadSetting(f"{name} must be set together with DATABASE_URL, the same on every machine.")
    path = data_dir / f"{name.lower()}.txt"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        if not path.exists():
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_urlsafe(48))
            try:
                os.link(fresh, path)  # atomic: of several first starters one wins, all read the same
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise BadSetting(f"The data directory {data_dir} cannot be used: {error.strerror}.") from None
