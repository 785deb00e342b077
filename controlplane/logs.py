"""How log records become lines: one line an event, and a database that is away told once in a while, not by the second.

While PostgreSQL is away every loop of every process tries again, several times a second, and each try raises. Of these
records each logger of each process writes one line per REPEAT_S seconds, without the trace, which says nothing that
the message does not.
"""

import json
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.db import InterfaceError

from dispatch.services import context

REPEAT_S = 10.0
_COMMON = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "request", "server_time"}
CONNECTION_STATES = ("08", "57P", "53300")  # connection exceptions, shutdown and start-up, too many connections


class OneLine(logging.Formatter):
    """Joins the lines of a message (PostgreSQL's have several); a trace keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = " ".join(record.message.split())
        return super().formatMessage(record)


class JsonLine(logging.Formatter):
    """One JSON object a line: `at`, `level`, `logger`, `message`, the request's id, and what the record says beside:
    `action` (a stable word for machines), `task_id`, `token` (the lease's), a traceback under `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = {name: value for name, value in vars(record).items() if name not in _COMMON}
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": " ".join(record.getMessage().split()),
            "process": record.process,
        }
        if request := context.request_id():
            line["request_id"] = request
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line | said, default=str)


class Outages(logging.Filter):
    """Calms what is said about a database that is away."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record becomes a line; one about an outage loses its trace."""
        error = _outage(record)
        if error is None:
            return True
        now = time.monotonic()
        if now - self._told.get(record.name, -REPEAT_S) < REPEAT_S:
            return False
        self._told[record.name] = now
        if record.exc_info:
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return True


def _outage(record: logging.LogRecord) -> BaseException | None:
    arguments = record.args if isinstance(record.args, tuple) else ()
    raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    for error in (raised, *arguments):
        if isinstance(error, BaseException) and any(_away(cause) for cause in _causes(error)):
            return error
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _away(error: BaseException) -> bool:
    """Whether it says that there is no connection; deadlocks, timeouts and the like are events of their own."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return error.sqlstate is None or error.sqlstate.startswith(CONNECTION_STATES)
    return isinstance(error, InterfaceError)
