"""Every detector: fires on trouble within its window, keeps quiet on healthy, idle, scheduled and paused work."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dispatch.core.detectors import RULES, Deaths, Line, Point, Stalls, View
from dispatch.core.samples import WAIT_BUCKETS_S

SLOTS = 10
STEPS = 120  # ten minutes of five seconds


def line(slug: str, points: Any, **given: Any) -> Line:
    of = {"id": {"critical": 1, "background": 2, "interactive": 3}.get(slug, 9), "slug": slug}
    return Line(**of | {"points": tuple(points)} | given)


def steps(make: Callable[[int], Point], count: int = STEPS) -> list[Point]:
    """Points by their number, the newest last."""
    return [make(n) for n in range(count)]


def busy(n: int) -> Point:
    """A class that gets its share and whose waits are short."""
    return Point(queued=3, running=6, age_ms=4000, dispatched=5, target=600, waits=waits(2.0, 5), done_n=5, done_met=5)


def idle(n: int) -> Point:
    """Nothing that could start: empty, or all of it scheduled, backing off, paused, held."""
    return Point()


def starved(n: int) -> Point:
    """A head that nobody serves."""
    return Point(queued=20, age_ms=n * 5000, target=400)


def waits(seconds: float, count: int) -> tuple[int, ...]:
    found = [0] * (len(WAIT_BUCKETS_S) + 1)
    found[next(n for n, bound in enumerate(WAIT_BUCKETS_S) if seconds <= bound)] = count
    return tuple(found)


def view(*classes: Line, **given: Any) -> View:
    return View(**{"pool_id": 1, "pool": "default", "classes": classes, "slots": SLOTS, "beat_age_ms": 100} | given)


def fired(found: View, rule: str, **changed: int) -> list[str]:
    dials = RULES[rule].dials(changed=changed)
    return [finding.subject for finding in RULES[rule].scan(found, dials)]


def all_fired(found: View) -> set[str]:
    return {rule for rule in RULES if fired(found, rule)}


CRITICAL = line("critical", steps(busy), weight=6_000_000)
HEALTHY = view(
    replace(CRITICAL, slo_queue_ms=10_000, slo_done_ms=60_000),
    line("background", steps(lambda n: replace(busy(n), running=4, target=400)), slo_queue_ms=60_000, min=2),
    tenants=(
        line("alpha", steps(lambda n: Point(queued=5, running=5)), id=1),
        line("beta", steps(lambda n: Point(queued=5, running=5)), id=2),
    ),
    deaths=(Deaths(tenant_id=1, tenant="alpha", type="x", lately=2, before=30),),
    stalls=(Stalls(worker_id=1, worker="w", stalled=1),),
    cycle_ms=20,
    late_ms=10,
)


def test_nothing_fires_on_a_healthy_pool() -> None:
    assert all_fired(HEALTHY) == set()


def test_nothing_fires_on_an_empty_pool_or_one_without_samples() -> None:
    assert (
        all_fired(view(CRITICAL, line("background", steps(idle), slo_queue_ms=1000, slo_done_ms=1000, min=5))) == set()
    )
    assert all_fired(view(line("critical", []), line("background", [], min=5))) == set()
    assert all_fired(view(slots=0, beat_age_ms=None)) == set()


def test_a_flood_of_critical_work_is_named_by_the_first_two_signs() -> None:
    flood = view(CRITICAL, line("background", steps(starved), slo_queue_ms=60_000))
    assert fired(flood, "queue_age_rising") == ["class:background"]
    assert fired(flood, "near_zero_dispatch") == ["class:background"]
    assert fired(flood, "queue_slo") == ["class:background"]


@pytest.mark.parametrize("rule", ["queue_age_rising", "near_zero_dispatch"])
def test_starvation_fires_as_soon_as_the_window_is_full(rule: str) -> None:
    window = {"window_s": 30}
    extra = {"age_s": 20} if rule == "queue_age_rising" else {}
    for count, expected in ((6, ["class:background"]), (5, [])):
        found = view(
            CRITICAL, line("background", steps(starved, count + 1)[-count:] if count > 5 else steps(starved, count))
        )
        assert fired(found, rule, **window, **extra) == expected, count


def test_an_age_that_falls_now_and_then_is_served() -> None:
    saw = line("background", steps(lambda n: Point(queued=9, age_ms=60_000 + n % 7 * 5000, dispatched=1, target=400)))
    assert fired(view(CRITICAL, saw), "queue_age_rising") == []


def test_an_age_rises_unfairly_only_while_classes_before_it_are_served() -> None:
    starving = line("background", steps(starved))
    assert fired(view(starving, line("critical", steps(idle), weight=6_000_000)), "queue_age_rising") == []
    assert fired(view(starving, replace(CRITICAL, weight=1, level=2)), "queue_age_rising") == []


def test_a_share_filled_with_long_tasks_is_no_standstill() -> None:
    long = line("background", steps(lambda n: Point(queued=9, running=4, age_ms=n * 5000, target=400)))
    assert fired(view(CRITICAL, long), "near_zero_dispatch") == []
    assert fired(view(CRITICAL, line("background", steps(starved)), paused=True), "near_zero_dispatch") == []
    assert fired(view(CRITICAL, line("background", steps(starved)), slots=0), "near_zero_dispatch") == []


def test_one_step_without_load_ends_a_standstill() -> None:
    points = steps(starved)
    points[-3] = Point()
    assert fired(view(CRITICAL, line("background", points)), "near_zero_dispatch") == []


def growing(n: int) -> Point:
    return Point(queued=10 + n, running=3, age_ms=n * 4000, dispatched=2, waits=waits(5.0 * 2.0 ** (n // 12), 2))


def test_waits_that_grow_from_third_to_third_are_told() -> None:
    rising = line("background", steps(growing))
    assert fired(view(rising), "queue_time_growing") == ["class:background"]
    steady = line("background", steps(lambda n: replace(growing(n), waits=waits(60.0, 2))))
    assert fired(view(steady), "queue_time_growing") == [], "long, but it does not grow"
    drained = [*steps(growing)[:-1], replace(growing(119), queued=0)]
    assert fired(view(line("background", drained)), "queue_time_growing") == []
    rare = line("background", steps(lambda n: replace(growing(n), waits=waits(600.0, 1) if n % 30 == 0 else ())))
    assert fired(view(rare), "queue_time_growing") == [], "too few starts to judge"


def test_a_tenant_that_takes_the_slots_of_another_is_named_with_the_numbers() -> None:
    taken = view(
        tenants=(
            line("alpha", steps(lambda n: Point(queued=50, running=9)), id=1),
            line("beta", steps(lambda n: Point(queued=50, running=1)), id=2),
        )
    )
    (finding,) = RULES["capacity_consumed"].scan(taken, RULES["capacity_consumed"].dials())
    assert finding.subject == "tenant:alpha"
    assert (finding.evidence["borrows"], finding.evidence["lends"]) == ({"alpha": 4.0}, {"beta": 4.0})
    assert "borrows from beta" in finding.text


def test_idle_capacity_may_be_borrowed() -> None:
    borrowed = view(
        tenants=(
            line("alpha", steps(lambda n: Point(queued=50, running=9)), id=1),
            line("beta", steps(lambda n: Point(queued=0, running=1)), id=2),
        )
    )
    assert fired(borrowed, "capacity_consumed") == []
    now_and_then = [Point(queued=50 if n % 2 else 0, running=1) for n in range(STEPS)]
    sometimes = replace(borrowed, tenants=(borrowed.tenants[0], line("beta", now_and_then, id=2)))
    assert fired(sometimes, "capacity_consumed") == []


def test_a_class_with_the_weight_for_it_may_have_most_of_the_slots() -> None:
    found = view(
        line("critical", steps(lambda n: Point(queued=50, running=9)), weight=9_000_000),
        line("background", steps(lambda n: Point(queued=50, running=1))),
    )
    assert fired(found, "capacity_consumed") == []


def late(n: int) -> Point:
    return Point(running=2, done_n=4, done_met=2)


def test_completion_targets_that_are_missed_while_the_system_is_there() -> None:
    missing = view(line("background", steps(late), slo_done_ms=60_000))
    assert fired(missing, "completion_slo") == ["class:background"]
    assert fired(replace(missing, slots=0), "completion_slo") == []
    assert fired(replace(missing, beat_age_ms=60_000), "completion_slo") == []
    assert fired(view(line("background", steps(late))), "completion_slo") == [], "no target"
    few = [*steps(idle)[:-1], late(0)]
    assert fired(view(line("background", few, slo_done_ms=60_000)), "completion_slo") == []


def test_a_floor_that_is_not_kept_or_does_not_fit() -> None:
    below = line("background", steps(lambda n: Point(queued=5, running=1)), min=3)
    assert fired(view(CRITICAL, below), "floor_unmet") == ["class:background"]
    assert fired(view(replace(CRITICAL, min=9), below), "floor_unmet") == [
        "class:critical",
        "class:background",
        "pool:default",
    ]
    enough = line("background", steps(lambda n: Point(queued=5, running=3)), min=3)
    assert fired(view(CRITICAL, enough), "floor_unmet") == []


@pytest.mark.parametrize(
    ("rule", "found", "subjects"),
    [
        ("dead_letters_rising", {"lately": 6, "before": 0}, ["type:alpha/resize"]),
        ("dead_letters_rising", {"lately": 6, "before": 60}, []),
        ("dead_letters_rising", {"lately": 4, "before": 0}, []),
        ("dead_letters_rising", {"lately": 0, "before": 0, "lost": 1}, []),
        ("poison_tasks", {"lately": 1, "before": 60, "lost": 1}, ["type:alpha/resize"]),
        ("poison_tasks", {"lately": 6, "before": 0}, []),
    ],
)
def test_deaths_are_held_against_the_hour_before(rule: str, found: dict[str, int], subjects: list[str]) -> None:
    deaths = Deaths(tenant_id=1, tenant="alpha", type="resize", **found)
    assert fired(view(deaths=(deaths,)), rule) == subjects


def test_agents_dispatcher_and_reconciler_that_are_late() -> None:
    stalls = (Stalls(worker_id=7, worker="w7", stalled=3), Stalls(worker_id=8, worker="w8", stalled=2))
    assert fired(view(stalls=stalls), "stalled_agents") == ["worker:7"]
    assert fired(view(beat_age_ms=5000), "dispatcher_late") == ["pool:default"]
    assert fired(view(cycle_ms=1500), "dispatcher_late") == ["pool:default"]
    assert fired(view(late_ms=6000), "reconciler_late") == ["reconciler"]


def test_what_is_open_ends_only_when_it_is_clearly_better() -> None:
    rule = RULES["queue_age_rising"]
    edge = view(CRITICAL, line("background", steps(lambda n: Point(queued=2, age_ms=55_000 + 4999 * (n - STEPS)))))
    assert edge.classes[1].points[-1] is not None
    assert rule.scan(edge, rule.dials()) == []
    assert len(rule.scan(edge, rule.dials(open_subjects=frozenset({"class:background"})))) == 1
    over = view(CRITICAL, line("background", steps(lambda n: Point(queued=2, age_ms=40_000 + 4999 * (n - STEPS)))))
    assert rule.scan(over, rule.dials(open_subjects=frozenset({"class:background"}))) == []


def test_a_rule_can_be_told_per_class_and_switched_off() -> None:
    rule = RULES["near_zero_dispatch"]
    found = view(CRITICAL, line("background", steps(starved)), line("interactive", steps(starved)))
    told = rule.dials(classes={3: {"load": 100}})
    assert [finding.subject for finding in rule.scan(found, told)] == ["class:background"]
    assert rule.scan(found, rule.dials(off=frozenset({2, 3}))) == []
    assert rule.scan(found, rule.dials(off=frozenset({None}))) == []


def test_every_rule_keeps_its_defaults_inside_their_ranges() -> None:
    for rule in RULES.values():
        for threshold in rule.thresholds:
            assert threshold.low <= threshold.default <= threshold.high, (rule.name, threshold.name)
            assert threshold.text, (rule.name, threshold.name)
