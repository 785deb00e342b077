"""The doctor: a sound installation, and each ailment with its advice."""

import json
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import OperationalError

from dispatch.models import Alert
from dispatch.services import doctor, pulse
from tests import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _sound() -> None:
    """Processes with pulses and a leader that beats."""
    fleet.world()
    for kind in ("web", "reconciler"):
        pulse.register_process(kind, {})
    fleet.sql("UPDATE pool_leader SET beat_at = now(), cycle_ms = 5")


def ailments(*names: str) -> list[tuple[str, str]]:
    """Findings that are not ok, of these checks (the test server's own settings are not what is looked at)."""
    return [(one.name, one.level) for one in doctor.examine() if one.level != doctor.OK and one.name in names]


ALL = ("clocks", "leader", "migrations", "processes", "work", "indexes")


def test_a_sound_installation_has_no_ailment() -> None:
    assert ailments(*ALL) == []
    names = [one.name for one in doctor.examine()]
    assert names[0] == "configuration" and {"database", "disk", "tables", *ALL} <= set(names)


@pytest.mark.parametrize(
    ("ail", "expected"),
    [
        ("UPDATE pool_leader SET beat_at = now() - interval '1 minute'", ("leader", "fail")),
        ("UPDATE pool_leader SET cycle_ms = 5000", ("leader", "warn")),
        ("UPDATE process SET beat_at = now() - interval '1 minute' WHERE kind = 'web'", ("processes", "fail")),
        ("DELETE FROM django_migrations WHERE name = (SELECT max(name) FROM django_migrations WHERE app = 'dispatch')",
         ("migrations", "fail")),
        ("UPDATE task SET state = 3, queued_at = NULL", ("work", "warn")),
        ("UPDATE task SET state = 0, run_at = now() - interval '2 minutes'", ("work", "fail")),
        ("INSERT INTO queue_sample (at, step, pool_id, queued, running, dispatched)"
         " SELECT now() - interval '1 minute', 1, id, 0, 0, 0 FROM pool", ("work", "warn")),
    ],
)  # fmt: skip
def test_each_ailment_is_found_and_comes_with_advice(ail: str, expected: tuple[str, str]) -> None:
    fleet.join()
    fleet.put(1)
    fleet.sql(ail)
    assert ailments(*ALL) == [expected]
    assert all(one.advice for one in doctor.examine() if one.level != doctor.OK and one.name in ALL)


def test_leases_that_nobody_takes_back_and_work_that_nobody_can_do() -> None:
    fleet.held()
    fleet.sql("UPDATE lease SET expires_at = now() - interval '2 minutes'")
    fleet.put(1, capabilities=("quantum",))
    found = {one.text: one.level for one in doctor.examine() if one.name == "work"}
    assert found["1 leases ran out more than a minute ago and were not taken back."] == "fail"
    assert found["1 queues wait for workers with quantum, and no live one has them."] == "warn"


def test_an_index_that_cannot_be_used_is_named() -> None:
    fleet.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'task_held'::regclass")
    (found,) = [one for one in doctor.examine() if one.name == "indexes"]
    assert found.level == "fail" and "task_held" in found.text and "REINDEX" in found.advice


def test_the_command_prints_json_and_tells_by_its_exit_code() -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as end:
        fleet.sql("UPDATE pool_leader SET beat_at = NULL")
        call_command("doctor", "--json", stdout=out)
    assert end.value.code == 1
    assert {"leader", "database"} <= {one["name"] for one in json.loads(out.getvalue())}
    fleet.sql("UPDATE pool_leader SET beat_at = now()")
    Alert.objects.create(rule="x", subject="y", severity="critical", text="z", evidence={})
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit:  # the test server runs without fsync
        assert "fsync is off" in out.getvalue()
    assert "1 critical alerts are open." in out.getvalue()


def test_without_a_database_it_says_so_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Callable[[], None]:
        raise OperationalError("connection\nrefused")

    monkeypatch.setattr(doctor.db, "rows", away)
    found = doctor.examine()
    assert found[-1].text == "It could not be looked at: connection refused"
    assert (found[-1].name, found[-1].level) == ("database", "fail")
