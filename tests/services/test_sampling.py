"""Samples: what they hold, that flows are counted once, roll-ups that catch up and change nothing twice, lines."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dispatch.errors import Invalid, NotFound
from dispatch.models import FlowTotal, QueueSample, WorkClass
from dispatch.services import policy, sampling, series
from tests import fleet
from tests.fleet import ROOT
from tests.services.world import key

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _departments() -> None:
    fleet.world()
    fleet.sql("UPDATE work_class SET slo_queue_s = 60, slo_done_s = 300")
    sampling._rest_until.clear()
    sampling._workers.clear()


def pass_time(seconds: float) -> None:
    """Everything that was happens so much earlier: the transaction's clock stands."""
    back = f"interval '{seconds} s'"
    fleet.sql(f"UPDATE sample_mark SET flow_to = flow_to - {back}, tenants_to = tenants_to - {back}")
    fleet.age_samples(seconds)
    fleet.sql(f"UPDATE lease SET granted_at = granted_at - {back}, delivered_at = delivered_at - {back}")
    fleet.sql(
        f"UPDATE attempt SET granted_at = granted_at - {back}, delivered_at = delivered_at - {back},"
        f" ended_at = ended_at - {back}"
    )
    fleet.sql(
        f"UPDATE task SET enqueued_at = enqueued_at - {back}, queued_at = queued_at - {back},"
        f" finished_at = finished_at - {back}"
    )


def line(**given: Any) -> QueueSample:
    return QueueSample.objects.filter(**{"step": 1, "class_id": critical(), "tenant_id": None} | given).latest("at")


def critical() -> int:
    return WorkClass.objects.get(slug="critical").pk


def test_flows_are_counted_once_with_waits_ends_and_slos() -> None:
    sampling.sample()
    session = fleet.join(slots=4).session_id
    first, second, third = fleet.put(3)
    fleet.sql("UPDATE task SET enqueued_at = now() - interval '90 s' WHERE id = %s", first)
    leases = {lease.task_id: lease for lease in fleet.hold(session, first, second, third)}
    pass_time(4)
    fleet.ended("complete", second, leases[second].token)
    fleet.ended("fail", third, leases[third].token, error={"message": "x", "kind": "permanent"})
    pass_time(3)
    sampling.sample()
    found = line()
    assert (found.started, found.queue_n, found.queue_met) == (3, 3, 2), "one waited longer than the SLO"
    assert sum(found.waits) == 3
    assert (found.ends[0], found.ends[1], found.dead) == (1, 1, 1)
    assert (found.done_n, found.done_met) == (2, 1), "a dead task keeps no SLO"
    assert 2 * 4 < found.slot_s <= 3 * 7
    pass_time(2)
    sampling.sample()
    assert (line().started, sum(line().ends), line().dead) == (0, 0, 0)
    total = FlowTotal.objects.get()
    assert (total.started, sum(total.waits), total.ends[:2], total.dead) == (3, 3, [1, 1], 1)
    assert total.wait_s == pytest.approx(90, abs=1)


def test_limited_scheduled_and_held_work_is_told_apart() -> None:
    fleet.put(2)
    fleet.put(1, work_class="background")
    policy.patch(ROOT, "class", "background", 1, {"paused": True}, "x")
    fleet.sql("UPDATE task SET queued_at = now() - interval '30 s'")
    (later,) = fleet.put(1)
    fleet.sql("UPDATE task SET state = 0, run_at = now() + interval '1 h', queued_at = NULL WHERE id = %s", later)
    sampling.sample()
    found = line()
    assert (found.queued, found.limited, found.scheduled, found.oldest_age_s) == (2, 0, 1, 30.0)
    paused = line(class_id=WorkClass.objects.get(slug="background").pk)
    assert (paused.queued, paused.limited, paused.oldest_age_s, paused.limited_oldest_age_s) == (1, 1, None, 30.0)


def test_tenants_and_the_pool_have_a_line_every_ten_seconds() -> None:
    session = fleet.join(slots=4).session_id
    fleet.hold(session, *fleet.put(2))
    fleet.put(3, tenant="beta")
    sampling.sample()
    assert not QueueSample.objects.filter(step=10).exists()
    pass_time(10)
    sampling.sample()
    tenants = list(QueueSample.objects.filter(step=10, class_id=critical()).order_by("tenant_id"))
    assert [(one.queued, one.running, one.started) for one in tenants] == [(0, 2, 2), (3, 0, 0)]
    pool = QueueSample.objects.get(step=10, class_id=None)
    assert (pool.queued, pool.running, pool.slots, pool.started) == (3, 2, 4, 2)


def fill(seconds: int, end_s: int = 5) -> None:
    """One sample a second of the class critical up to `end_s` ago: one start a second, all waited 10 to 30 s."""
    fleet.sql(
        "INSERT INTO queue_sample (at, step, pool_id, class_id, queued, running, oldest_age_s, dispatched, started,"
        " waits, ends, queue_n, queue_met) SELECT date_trunc('second', now()) - make_interval(secs => n), 1, %s, %s, 4,"
        " 2, n, 1, 1, '{0,0,0,0,0,0,0,1}', '{1}', 1, 1 FROM generate_series(%s, %s) n",
        fleet.pool_id(),
        critical(),
        end_s,
        end_s + seconds - 1,
    )


def contents(step: int) -> list[Any]:
    rows = QueueSample.objects.filter(step=step).order_by("at")
    return list(rows.values_list("at", "queued", "running", "started", "waits", "ends", "queue_n", "oldest_age_s"))


def test_roll_ups_hold_sums_and_means_and_change_nothing_twice() -> None:
    fill(800)
    sampling.roll_up()
    tens, minutes = contents(10), contents(60)
    assert 79 <= len(tens) <= 81, "as the clock stands"
    whole = tens[1]
    assert whole[1:7] == (4, 2, 10, [0] * 7 + [10], [10], 10)
    assert 12 <= len(minutes) <= 14
    assert minutes[1][1:7] == (4, 2, 60, [0] * 7 + [60], [60], 60)
    assert sampling.roll_up() == 0
    assert (contents(10), contents(60)) == (tens, minutes)


def test_a_roll_up_catches_up_after_a_pause() -> None:
    fill(60, end_s=700)
    sampling.roll_up()
    before = len(contents(10))
    fill(60)
    assert sampling.roll_up() > 0
    after = contents(10)
    assert len(after) > before
    assert sum(row[3] for row in after) >= 100, "nothing of both spans is lost but the step that is not over"


def test_samples_are_kept_until_the_coarser_ones_have_them() -> None:
    fill(30, end_s=1000)
    assert sampling.prune() == 0
    sampling.roll_up()
    assert sampling.prune() > 0
    fill(30, end_s=2000)
    sampling.prune()
    assert not QueueSample.objects.filter(step=1, at__lt=timezone.now() - timedelta(seconds=1801)).exists()


def test_lines_are_drawn_in_the_resolution_of_the_span() -> None:
    fill(800)
    sampling.roll_up()
    fine = series.series(ROOT, span_s=300, points=300)
    coarse = series.series(ROOT, span_s=900, points=90)
    assert (fine["step_s"], coarse["step_s"]) == (1, 10)
    assert 290 <= len(fine["lines"]["critical"]) <= 296
    point = coarse["lines"]["critical"][5]
    assert (point["queued"], point["running"], point["queue_met"], point["share"]) == (4.0, 2.0, 1.0, 0.0)
    assert point["dispatched_per_s"] == pytest.approx(1.0)
    assert 10 < point["wait_p95_s"] <= 30
    assert fine["lines"]["background"] == []


def test_lines_of_tenants_are_for_those_who_see_them() -> None:
    fleet.hold(fleet.join(slots=4).session_id, *fleet.put(1), *fleet.put(1, tenant="beta"))
    sampling.sample()
    pass_time(10)
    sampling.sample()
    pass_time(3)
    mine = series.series(key("read", tenant="alpha"), by="tenant", span_s=60)
    assert [len(points) for points in mine["lines"].values()] == [1]
    assert list(mine["lines"]) == ["alpha"]
    assert series.series(key("read", tenant="alpha"), span_s=60)["lines"] == {}
    everyone = series.series(ROOT, by="tenant", span_s=60)["lines"]
    assert [everyone[slug][0]["running"] for slug in ("alpha", "beta")] == [1.0, 1.0]
    assert series.series(ROOT, by="pool", span_s=60)["lines"]["default"][0]["slots"] == 4


@pytest.mark.parametrize("given", [{"span_s": 0}, {"points": 0}, {"points": True}, {"by": "user"}, {"until": 3}])
def test_a_bad_span_names_its_field(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        series.series(ROOT, **given)
    assert [error["field"] for error in refused.value.errors] == list(given)
    with pytest.raises(NotFound):
        series.series(ROOT, "nowhere")
