"""Nothing secret reaches a log line: keys, passwords, payloads, results, texts that the database refuses."""

import logging

import pytest
from django.db import DataError, IntegrityError
from django.test import Client

from dispatch.api import problems
from dispatch.models import User
from dispatch.services import tasks
from tests.api.conftest import World

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "hunter2-payload"


def test_calls_good_bad_and_broken_leave_no_secret_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    made = world.door.post("/keys", {"name": "agent", "scopes": ["work"]})
    lease = world.lease(payload={"card": SECRET})
    world.door.post(f"/tasks/{lease['task_id']}/complete", {"token": lease["token"], "result": SECRET})
    world.door.post("/tasks", raw=f'{{"payload": "{SECRET}", '.encode())
    world.door.post("/tasks", {"tenant": SECRET, "class": "x", "payload": SECRET})
    world.door.get("/tasks", key=f"ef_abcdefgh_{SECRET}")

    def broken(*_: object, **__: object) -> None:
        raise IntegrityError(f"Key (key)=({SECRET}) already exists.") from ValueError(SECRET)

    monkeypatch.setattr(tasks, "get_task", broken)
    path, sent = f"/api/v1/tasks/{lease['task_id']}", {"authorization": f"Bearer {world.door.key}"}
    assert world.door.send("GET", path, b"", sent)[0] == 500
    assert "Unexpected fault: IntegrityError (no SQLSTATE) at broken:" in caplog.text
    for secret in (world.door.key or "", made.data["key"], SECRET, made.data["key"].split("_")[2]):
        assert secret not in caplog.text


def test_a_value_that_the_database_refuses_is_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    assert problems.of(DataError(f'invalid input syntax for type json: "{SECRET}"')).status == 422
    assert SECRET not in caplog.text
    assert "DataError" in caplog.text


def test_signing_in_leaves_no_password_in_the_log(db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    User.objects.create_user("ann@example.org", SECRET)
    for password in (SECRET, SECRET + "x"):
        Client().post("/login", {"login": "ann@example.org", "password": password})
    assert SECRET not in caplog.text
