"""Attainment and burn rate: windows from the samples that serve them, without counting anything twice."""

from typing import Any

import pytest

from dispatch.services import overview, sampling, slo, stats
from tests import fleet
from tests.fleet import ROOT
from tests.services.world import key

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _departments() -> None:
    fleet.world(classes=("critical",))
    slo.forget()


def judged(step: int, count: int, first_s: int, met: int = 1) -> None:
    """Samples of one resolution, one judged task each, from so many seconds ago on backwards."""
    fleet.sql(
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, dispatched, queue_n, queue_met)"
        " SELECT date_bin(make_interval(secs => %s), now() - make_interval(secs => %s + %s * n), '2000-01-01'), %s, %s,"
        " (SELECT id FROM work_class), 0, 0, 0, 1, %s FROM generate_series(0, %s) n",
        *(step, first_s, step, step, fleet.pool_id(), met, count - 1),
    )


def windows(kind: str = "queue") -> dict[str, Any]:
    slo.forget()
    return {name: window["n"] for name, window in next(iter(slo.of_classes(fleet.pool_id()).values()))[kind].items()}


def test_windows_are_read_from_the_coarsest_samples_that_serve_them() -> None:
    judged(1, 100, 5)
    judged(10, 400, 20)
    judged(60, 1000, 80)
    judged(900, 2000, 2000)
    found = windows()
    assert 95 <= found["5m"] <= 101
    assert 355 <= found["1h"] <= 381
    assert 1000 <= found["24h"] <= 1010 + 20
    assert 2000 <= found["28d"] <= 2080


def test_what_is_rolled_up_is_counted_once() -> None:
    fleet.sql(
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, dispatched, queue_n, queue_met)"
        " SELECT date_trunc('second', now()) - make_interval(secs => n), 1, %s, (SELECT id FROM work_class), 0, 0, 0,"
        " 2, 1 FROM generate_series(1, 800) n",
        fleet.pool_id(),
    )
    sampling.roll_up()
    found = windows()
    assert {found[name] for name in ("1h", "24h", "28d")} == {1600}
    of = next(iter(slo.of_classes(fleet.pool_id()).values()))["queue"]["1h"]
    assert (of["attained"], of["burn"]) == (0.5, pytest.approx(10.0))


def test_they_are_on_the_page_and_in_the_statistics_of_all_tenants() -> None:
    judged(1, 100, 5, met=0)
    (shown,) = overview.overview(ROOT)["classes"]
    assert shown["slo"]["queue"]["5m"]["burn"] == pytest.approx(20)
    (counted,) = stats.stats(ROOT)["classes"]
    assert counted["slo"]["queue"]["5m"]["attained"] == 0
    assert counted["slo"]["done"]["5m"] == {"n": 0, "met": 0, "attained": None, "burn": None}
    (mine,) = stats.stats(key("read", tenant="alpha"))["classes"]
    assert mine["slo"]["queue"] == {}
