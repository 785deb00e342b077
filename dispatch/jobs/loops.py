"""Shared by the loops of the cluster: stop event, pulse, and what to do when the database is away."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from django import db

from dispatch.services import pulse
from dispatch.store import dedicated

BEAT_S = 1.0
RETRY_S = 0.5

DATABASE_ERRORS = (db.Error, dedicated.Error)

logger = logging.getLogger(__name__)


class Stop(Protocol):
    """An event of threading or multiprocessing, or jobs/lifeline.Stop."""

    def is_set(self) -> bool:
        """Whether the stop was asked for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep, less when the stop is asked for; whether it was."""


class Pulse:
    """The pulse of this process; registers again when its row was pruned while the process was away."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.process_id: int | None = None
        self._beat_at = 0.0

    def beat(self, info: Mapping[str, Any]) -> int:
        """Beat at most once in BEAT_S; the process's id."""
        if self.process_id is None or time.monotonic() - self._beat_at >= BEAT_S:
            if self.process_id is None or not pulse.beat(self.process_id, info):
                self.process_id = pulse.register_process(self.kind, info)
            self._beat_at = time.monotonic()
        return self.process_id

    def end(self) -> None:
        """Say goodbye, if the database hears it."""
        try:
            if self.process_id is not None:
                pulse.end(self.process_id)
        except DATABASE_ERRORS:
            logger.info("the database is away; the pulse ends by itself")


def reset_connection() -> None:
    """After an error: let Django's connection of this thread go, the next statement opens another one."""
    try:
        db.connection.close()
    except DATABASE_ERRORS:
        db.connection.connection = None
