"""The system checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from dispatch import checks
from dispatch.models import Pool, WorkClass

ROOT = Path(__file__).parents[2]


def ids(databases: list[str] | None = None) -> set[str]:
    return {message.id or "" for message in run_checks(databases=databases)}


@pytest.mark.django_db
def test_a_new_installation_is_in_order() -> None:
    assert {one for one in ids(["default"]) if one.startswith("evenflow")} == set()


def test_a_slow_job_must_not_be_given_out_twice() -> None:
    with override_settings(Q_CLUSTER={"retry": 300, "timeout": 300}):
        assert "evenflow.E001" in ids()


@pytest.mark.django_db
def test_promises_beyond_the_budget_and_short_leases_are_found() -> None:
    pool = Pool.objects.get()
    WorkClass.objects.create(slug="a", pool=pool, min=3)
    WorkClass.objects.create(slug="b", pool=pool, min=2)
    Pool.objects.update(budget=5)
    assert "evenflow.W001" not in ids(["default"])
    Pool.objects.update(budget=4, lease_ttl_s=3, heartbeat_every_s=2)
    assert {"evenflow.W001", "evenflow.E004"} <= ids(["default"])


@pytest.mark.django_db
def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MINIMUM", 99)
    assert "evenflow.E002" in ids(["default"])


def test_production_settings_have_nothing_to_complain_about(tmp_path: Path) -> None:
    """`check --deploy` in a process of its own, as the guide tells to set it up."""
    env = {
        "PATH": os.environ["PATH"],
        "EVENFLOW_DATA": str(tmp_path),
        "EVENFLOW_HTTPS": "1",
        "EVENFLOW_BEHIND_PROXY": "1",
    }
    command = [
        sys.executable,
        "-W",
        "error::DeprecationWarning",
        "manage.py",
        "check",
        "--deploy",
        "--fail-level",
        "INFO",
    ]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (0 silenced).\n"), done.stderr
    assert (tmp_path / "secret_key.txt").stat().st_mode & 0o777 == 0o600
