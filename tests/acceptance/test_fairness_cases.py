"""Faults from the field that are about whose turn it is: H01-H03, H05, H06 and H09, on services and PostgreSQL."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest

from dispatch.core import policies
from dispatch.core.explain import Asked, Blocker, explain
from dispatch.errors import Invalid
from dispatch.models import Alert
from dispatch.services import policy, uncovered
from dispatch.store import snapshot
from tests import fleet
from tests.acceptance.shop import Shop, Start

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    fleet.invariants()


def older(seconds: int) -> None:
    """All tasks so far were submitted that much earlier."""
    since = f"now() - interval '{seconds} s'"
    fleet.sql(f"UPDATE task SET enqueued_at = {since}, queued_at = {since}")


def tenants(starts: Sequence[Start]) -> list[str]:
    return [start.tenant for start in starts]


def why(shop: Shop, task: int) -> tuple[Blocker, ...]:
    """What keeps the first task of a lane from starting, by the dispatcher's own snapshot."""
    view = snapshot.read(shop.leader.pool).snapshot
    (lane,) = [lane for lane in view.lanes if lane.heads[0].id == task]
    asked = Asked(head=lane.heads[0], lane=lane)
    return explain(view, shop.leader.memory.accounts, asked, policies.registry["fair"]).blockers


@pytest.mark.parametrize("head_start_s", [0, 3600])
def test_h01_one_small_task_beside_another_tenants_flood(shop: Shop, head_start_s: int) -> None:
    flood = shop.put(1000, takes=0.2, work_class="background")
    older(head_start_s)
    before = shop.run(20)
    assert set(tenants(before)) == {"alpha"}
    (small,) = shop.put(1, takes=0.2, tenant="beta", work_class="background")
    after = shop.run(40)
    assert small in [start.task for start in after[:8]]
    assert Counter(tenants(after)) == {"alpha": len(after) - 1, "beta": 1}
    assert len(shop.busy) == 4, "all slots are used"
    assert [start.task for start in before] == flood[: len(before)]


@pytest.mark.parametrize("rows", [1000, 20_000])
def test_h02_rows_that_cannot_start_never_hide_others(shop: Shop, rows: int) -> None:
    shop.edit("tenant", "alpha", max=2)
    shop.put(2, takes=30, work_class="critical")
    assert len(shop.run(2)) == 2
    shop.put(rows, work_class="critical")
    beta = shop.put(100, tenant="beta", work_class="background")
    begun = time.perf_counter()
    started = shop.dispatch()
    assert time.perf_counter() - begun < 2
    assert [start.task for start in started] == beta[:2]
    for _ in range(20):
        shop.finish()
        assert len(shop.dispatch()) == 1, "both slots stay busy"
    assert shop.running("alpha") == 2


def test_h02_a_cycle_costs_the_same_with_twenty_times_the_blocked_rows(shop: Shop) -> None:
    shop.edit("tenant", "alpha", max=0)
    taken = {}
    for rows in (1000, 19_000):
        shop.put(rows, work_class="critical")
        fleet.sql("ANALYZE task")
        shop.leader.cycle()
        times = []
        for _ in range(9):
            begun = time.perf_counter()
            shop.leader.cycle()
            times.append(time.perf_counter() - begun)
        taken[rows] = min(times)
    assert taken[19_000] < 3 * max(taken[1000], 0.01)


@pytest.mark.parametrize("trickle", [False, True])
def test_h03_nobody_comes_back_with_saved_up_credit(shop: Shop, trickle: bool) -> None:
    shop.put(100, takes=5, work_class="interactive")
    for n in range(12):
        if trickle and n % 2 == 0:
            shop.put(1, takes=5, tenant="beta", work_class="interactive")
        shop.run(4)
    assert shop.now >= 55
    shop.put(100, takes=5, work_class="interactive")
    shop.put(100, takes=5, tenant="beta", work_class="interactive")
    order = tenants(shop.run(40))[:40]
    assert 4 <= order[:10].count("beta") <= 6
    assert 17 <= order.count("beta") <= 23
    assert max(len(list(run)) for _, run in groupby(order)) <= 4


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "", "NaN", None, True, 0.0001, 1e9, "1"])
def test_h05_an_absurd_weight_is_refused_by_name_and_changes_nothing(shop: Shop, weight: Any) -> None:
    with pytest.raises(Invalid) as refused:
        shop.edit("tenant", "beta", weight=weight)
    assert [error["field"] for error in refused.value.errors] == ["weight"]
    assert policy.get(fleet.ROOT, "tenant", "beta")["weight"] == 1


@pytest.mark.parametrize("weight", [0, 0.001, 1000])
def test_h05_extreme_weights_starve_nobody_but_the_zero_that_asks_for_it(shop: Shop, weight: float) -> None:
    shop.edit("tenant", "beta", weight=weight)
    for tenant in ("alpha", "beta", "gamma"):
        shop.put(20, takes=1, tenant=tenant, work_class="interactive")
    order = tenants(shop.run(30))[:30]
    assert set(order) == ({"alpha", "gamma"} if weight == 0 else {"alpha", "beta", "gamma"})
    if weight == 0:
        assert tenants(shop.run(60)).count("beta") == 20, "served when nobody else waits"


def test_h06_what_nobody_can_run_blocks_nobody_and_says_why(shop: Shop) -> None:
    (odd,) = shop.put(1, capabilities=("code", "quantum"), work_class="interactive")
    plain = shop.put(9, work_class="interactive")
    assert [start.task for start in shop.run(9)] == plain
    shop.dispatch()
    (blocker,) = why(shop, odd)
    assert (blocker.code, blocker.value) == ("no_capable_worker", "quantum")
    uncovered.watch()
    alerts = Alert.objects.filter(rule="no_capable_worker", resolved_at=None)
    assert [alert.text for alert in alerts] == ["No eligible worker: quantum. 1 queue waits."]
    for spelling in ("GPU", " gpu "):
        with pytest.raises(Invalid):
            shop.put(1, capabilities=(spelling,))
    shop.join("w5", ("code", "quantum"))
    assert odd in [start.task for start in shop.dispatch()]
    assert uncovered.watch() == 0
    assert not alerts.all().exists()


def test_h09_a_limit_below_what_runs_is_no_negative_number(shop: Shop) -> None:
    for n in range(5, 11):
        shop.join(f"w{n}", ("code",))
    shop.put(6, takes=50, work_class="interactive")
    assert len(shop.dispatch()) == 6
    shop.put(50, takes=5, work_class="interactive")
    beta = shop.put(60, takes=1, tenant="beta", work_class="interactive")
    shop.edit("tenant", "alpha", max=3)
    for most in (3, 0):
        assert shop.edit("tenant", "alpha", max=most)["warnings"]
        started = shop.run(12)
        assert shop.running("alpha") == 6, "nothing is stopped"
        assert set(tenants(started)) == {"beta"}, "beta is not disturbed"
    assert len(shop.busy) == 10
    assert beta
    while shop.running("alpha") > 2:
        shop.finish()
        assert all(start.tenant == "beta" for start in shop.dispatch()), "0: none at all"
    shop.edit("tenant", "alpha", max=10)
    shop.run(20)
    assert shop.running("alpha") > 2
