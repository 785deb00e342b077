"""Log lines: one an event, an outage of the database now and then, everything else always."""

import json
import logging
from typing import Any

import psycopg
import pytest
from django.db import OperationalError

from controlplane import logs
from dispatch.services import context

AWAY = psycopg.OperationalError("connection failed:\n\tIs the server running?")


def record(message: str, *arguments: object, error: BaseException | None = None, name: str = "room") -> Any:
    exc_info = (type(error), error, None) if error else None
    return logging.LogRecord(name, logging.WARNING, "", 0, message, arguments, exc_info)  # type: ignore[arg-type]


def wrapped(cause: psycopg.Error) -> OperationalError:
    """As Django raises what psycopg raised."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


def test_a_message_of_several_lines_becomes_one() -> None:
    line = logs.OneLine("%(name)s: %(message)s").format(record("gone: %s", AWAY))
    assert line == "room: gone: connection failed: Is the server running?"


def test_an_outage_is_told_once_per_logger_and_time() -> None:
    calm = logs.Outages()
    assert [calm.filter(record("pool %s: %s", number, AWAY)) for number in range(3)] == [True, False, False]
    assert calm.filter(record("away: %s", AWAY, name="other")) is True


def test_an_outage_is_told_again_when_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = logs.Outages()
    assert calm.filter(record("%s", AWAY)) is True
    later = logs.time.monotonic() + logs.REPEAT_S
    monkeypatch.setattr(logs.time, "monotonic", lambda: later)
    assert calm.filter(record("%s", AWAY)) is True


def test_the_trace_of_an_outage_gives_way_to_its_sentence() -> None:
    told = record("Failed to pull a task", error=wrapped(AWAY))
    assert logs.Outages().filter(told) is True
    assert (
        logs.OneLine("%(message)s").format(told) == "Failed to pull a task: connection failed: Is the server running?"
    )


@pytest.mark.parametrize("error", [wrapped(psycopg.errors.DeadlockDetected("deadlock")), ValueError("a defect")])
def test_other_errors_keep_their_lines_and_traces(error: Exception) -> None:
    calm = logs.Outages()
    told = [record("failed", error=error) for _ in range(3)]
    assert [calm.filter(one) for one in told] == [True, True, True]
    assert all(one.exc_info for one in told)


def test_a_server_that_shuts_down_is_an_outage() -> None:
    calm = logs.Outages()
    error = wrapped(psycopg.errors.AdminShutdown("terminating connection"))
    assert [calm.filter(record("%s", error)) for _ in range(2)] == [True, False]


def test_a_json_line_holds_what_the_record_says_and_the_request() -> None:
    told = record("lease of %s\nends", 7, name="dispatch.reclaim")
    told.action, told.task_id, told.token = "lease_ended", 7, 99
    asked = context.begin("abc-1")
    line = json.loads(logs.JsonLine().format(told))
    assert line.items() >= {"message": "lease of 7 ends", "level": "warning", "logger": "dispatch.reclaim"}.items()
    assert (line["action"], line["task_id"], line["token"], line["request_id"]) == ("lease_ended", 7, 99, asked)
    failed = json.loads(logs.JsonLine().format(record("x", error=ValueError("a defect"))))
    assert failed["error"] == "ValueError: a defect"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "\n"])
def test_a_request_id_that_is_not_plain_is_replaced(given: str) -> None:
    assert len(context.begin(given)) == 32
