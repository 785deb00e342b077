"""Rules on recorded samples: they fire where they would have fired, as often, and with what was typed."""

from typing import Any

import pytest

from dispatch.errors import Forbidden, Invalid, NotFound
from dispatch.services import backtest
from tests import fleet
from tests.fleet import ROOT
from tests.services.world import key, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _recorded() -> None:
    """An hour in which background work starved twice: from 50 to 40 and from 20 to 10 minutes ago."""
    make_world()
    pool = fleet.pool_id()
    insert = (
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, oldest_age_s, dispatched, target,"
        " slots) SELECT date_bin('10 s', now(), '2000-01-01') - make_interval(secs => 10 * n), 10, %s,"
    )
    fleet.sql(f"{insert} NULL, 50, 4, NULL, 40, NULL, 4 FROM generate_series(1, 420) n", pool)
    fleet.sql(
        f"{insert} id, 30, 4, 5, 40, 0.9, NULL FROM work_class, generate_series(1, 420) n WHERE slug = 'critical'", pool
    )
    fleet.sql(
        f"{insert} id, 9, 0, CASE WHEN n BETWEEN 60 AND 120 THEN (120 - n) * 10 WHEN n BETWEEN 240 AND 300"
        " THEN (300 - n) * 10 ELSE 4 END, CASE WHEN n BETWEEN 60 AND 120 OR n BETWEEN 240 AND 300 THEN 0 ELSE 5 END,"
        " 0.1, NULL FROM work_class, generate_series(1, 420) n WHERE slug = 'background'",
        pool,
    )


def test_it_tells_when_and_about_what_a_rule_would_have_fired() -> None:
    found = backtest.backtest(ROOT, "queue_age_rising")
    assert (found["count"], found["step_s"]) == (2, 10)
    assert 355 <= found["looked"] <= 361
    newest, oldest = found["incidents"]
    assert {newest["subject"], oldest["subject"]} == {"class:background"}
    assert (newest["severity"], oldest["began"] < oldest["ended"] < newest["began"]) == ("critical", True)
    assert 480 <= (newest["ended"] - newest["began"]).total_seconds() <= 560
    assert backtest.backtest(ROOT, "queue_age_rising", span_s=1500)["count"] == 1


def test_other_thresholds_give_other_answers() -> None:
    assert backtest.backtest(ROOT, "queue_age_rising", {"age_s": 700})["count"] == 0
    assert backtest.backtest(ROOT, "near_zero_dispatch", {"window_s": 600})["count"] == 2
    assert backtest.backtest(ROOT, "near_zero_dispatch", {"load": 10})["count"] == 0


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("thresholds.window_s", {"thresholds": {"window_s": 0}}),
        ("thresholds.x", {"thresholds": {"x": 1}}),
        ("span_s", {"span_s": 200_000}),
        ("rule", {"name": "stalled_agents"}),
    ],
)
def test_a_bad_question_names_its_field(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        backtest.backtest(ROOT, **({"name": "queue_age_rising"} | given))
    assert [error["field"] for error in refused.value.errors] == [field]


def test_it_is_for_those_who_see_all_tenants() -> None:
    with pytest.raises(NotFound):
        backtest.backtest(ROOT, "nothing")
    with pytest.raises(Forbidden):
        backtest.backtest(key("read", tenant="alpha"), "queue_slo")
    assert backtest.backtest(key("read"), "queue_slo")["count"] == 0
