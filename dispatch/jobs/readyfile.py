"""The file that tells a program that started us where we are: 0600, complete or absent, never half written."""

import json
import os
from pathlib import Path
from typing import Any

from dispatch.jobs.prepare import Refused


class ReadyFile:
    """Made at the start, which takes an old file away; `write` brings the new one by a rename."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.before = _read(self.path)
        self._half = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._handle = os.open(self._half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise Refused(f"The ready-file {self.path} cannot be written: {error.strerror}.") from None

    def write(self, url: str, admin_key: str, email: str, password: str | None) -> None:
        """Tell the address, this start's key and the operator (password None: changed, or not known any more)."""
        told = {"url": url, "admin_key": admin_key, "operator": {"email": email, "password": password}}
        with os.fdopen(self._handle, "w") as handle:
            json.dump(told, handle)
            handle.flush()
            os.fsync(handle.fileno())
        self._half.rename(self.path)

    def known_password(self, email: str) -> str | None:
        """The operator's password as the file before this start told it."""
        operator = self.before.get("operator")
        if isinstance(operator, dict) and operator.get("email") == email:
            password = operator.get("password")
            return password if isinstance(password, str) else None
        return None

    def discard(self) -> None:
        """Leave no half file of a start that came to nothing."""
        self._half.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
