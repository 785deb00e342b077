"""Single rules of the policy, one small world each: tiers, levels, matching, deficits, yields, pauses, explain."""

from collections import Counter
from dataclasses import replace

import pytest

from dispatch.core.aging import ONE, effective_level, fading
from dispatch.core.cost import Learned, charge_for
from dispatch.core.explain import NOBODY_ASKS, Asked, explain
from dispatch.core.memory import Memory
from dispatch.core.policies import registry
from dispatch.core.sentences import sentence
from dispatch.core.states import State
from dispatch.core.types import ClassPolicy, CostBudget, Ended, Head, Policy, Running, Slot, TenantPolicy, ToolPolicy
from tests.core.worlds import NOW, S, lane, plan, running, slots, world


def lanes_of(outcome) -> list[int]:
    return [a.lane for a in outcome.assignments]


# Tiers


def test_a_class_below_its_floor_goes_first_and_by_the_part_that_runs():
    policy = Policy(classes={1: ClassPolicy(weight=9 * S), 2: ClassPolicy(min=4), 3: ClassPolicy(min=2)})
    lanes = tuple(lane(9, id=c, work_class=c) for c in (1, 2, 3))
    loads = (running(1, work_class=2), running(1, work_class=3))
    fleet = tuple(replace(slot, slots=2) for slot in slots(5))
    outcome = plan(world(policy=policy, slots=fleet, lanes=lanes, loads=loads))
    assert [(a.lane, a.tier) for a in outcome.assignments][:4] == [(2, "G"), (3, "G"), (2, "G"), (2, "G")]
    assert outcome.assignments[4].tier == "W"


def test_a_lost_task_takes_up_its_turn_again_though_its_owner_was_charged():
    """The lost attempt's time stays charged: by virtual time alone the task would wait until all others caught up."""
    policy = Policy(classes={1: ClassPolicy(weight=6 * S), 2: ClassPolicy(min=1)}, promotion_slots=1)
    lost = Ended(work_class=1, tenant=1, user=1, charged=S, actual=600 * S, completed=False)
    lanes = (lane(3, id=1, tenant=1), lane(9, id=2, tenant=2), lane(9, id=3, work_class=2))
    again = replace(lanes[0], heads=(replace(lanes[0].heads[0], again=True), *lanes[0].heads[1:]))
    without = plan(world(policy=policy, slots=slots(4), lanes=lanes, ended=(lost,)))
    outcome = plan(world(policy=policy, slots=slots(4), lanes=(again, *lanes[1:]), ended=(lost,)))
    assert 1 not in lanes_of(without)
    first = outcome.assignments[0]
    assert (first.lane, first.tier) == (1, "R")
    assert lanes_of(outcome).count(1) == 1  # the tasks behind it wait for their turn


@pytest.mark.parametrize("limit", [{"max": 0}, {"paused": True}])
def test_a_lost_task_breaks_no_limit_and_blocks_nobody(limit):
    policy = Policy(tenants={1: TenantPolicy(**limit)})
    again = lane(1, id=1, tenant=1)
    again = replace(again, heads=(replace(again.heads[0], again=True),))
    outcome = plan(world(policy=policy, slots=slots(2), lanes=(again, lane(9, id=2, tenant=2))))
    assert lanes_of(outcome) == [2, 2]


def test_lost_tasks_start_again_oldest_first():
    first, second = (
        replace(base, heads=(replace(base.heads[0], again=True, enqueued_at=NOW - age * S),))
        for base, age in ((lane(1, id=1, tenant=1), 50), (lane(1, id=2, tenant=2), 90))
    )
    assert lanes_of(plan(world(slots=slots(2), lanes=(first, second)))) == [2, 1]


def test_floors_are_scaled_to_the_slots_that_live():
    policy = Policy(classes={1: ClassPolicy(min=60), 2: ClassPolicy(min=30), 3: ClassPolicy(weight=1000 * S)})
    lanes = tuple(lane(20, id=c, work_class=c) for c in (1, 2, 3))
    tiers = Counter(
        a.lane for a in plan(world(policy=policy, slots=slots(9), lanes=lanes)).assignments if a.tier == "G"
    )
    assert tiers == {1: 6, 2: 3}


def test_what_is_not_lent_stays_idle_for_its_class():
    policy = Policy(classes={1: ClassPolicy(min=3, lend=0), 2: ClassPolicy()})
    busy = world(policy=policy, slots=slots(5), lanes=(lane(9, id=2, work_class=2),))
    assert lanes_of(plan(busy)) == [2, 2]
    lent = replace(policy, classes={1: ClassPolicy(min=3), 2: ClassPolicy()})
    assert lanes_of(plan(replace(busy, policy=lent))) == [2] * 5


def test_promotion_takes_the_oldest_task_of_the_lane_that_waits_longest():
    policy = Policy(promotion_slots=1, classes={1: ClassPolicy(weight=99 * S), 2: ClassPolicy(max_wait=60 * S)})
    old = Head(id=2999, enqueued_at=NOW - 500 * S, est=S)
    lanes = (
        lane(5, id=1, work_class=1),
        lane(5, id=2, work_class=2, tenant=2, at=NOW - 90 * S, oldest=old),
        lane(5, id=3, work_class=2, tenant=3, at=NOW - 100 * S),
    )
    outcome = plan(world(policy=policy, slots=slots(3), lanes=lanes))
    assert [(a.task, a.tier) for a in outcome.assignments] == [(2999, "P"), (1000, "W"), (1001, "W")]


def test_a_level_ages_one_step_at_a_time_and_never_below_one():
    assert [effective_level(3, 900 * S, age * S) for age in (0, 899, 900, 1799, 1800, 7200)] == [3, 3, 2, 2, 1, 1]
    assert effective_level(3, None, 10**9 * S) == 3


def test_levels_come_before_weights():
    policy = Policy(classes={1: ClassPolicy(level=2, weight=99 * S), 2: ClassPolicy(level=1)})
    lanes = (lane(5, id=1, work_class=1), lane(2, id=2, work_class=2))
    assert lanes_of(plan(world(policy=policy, slots=slots(4), lanes=lanes))) == [2, 2, 1, 1]


def test_a_tenant_below_its_nominal_goes_first_inside_its_class():
    policy = Policy(classes={1: ClassPolicy()}, tenants={1: TenantPolicy(nominal=3), 2: TenantPolicy(weight=9 * S)})
    lanes = (lane(9, id=1, tenant=1), lane(9, id=2, tenant=2))
    assert Counter(lanes_of(plan(world(policy=policy, slots=slots(4), lanes=lanes)))) == {1: 3, 2: 1}


def test_debt_fades_by_half_in_each_half_life():
    assert fading(600 * S, 600 * S) == ONE // 2
    assert fading(0, 600 * S) == ONE
    assert abs(fading(300 * S, 600 * S) / ONE - 0.5**0.5) < 1e-6
    assert fading(10**6 * S, S) == 0


# Cost


def test_a_hint_is_corrected_by_history_and_kept_within_it():
    learned = Learned()
    for _ in range(20):
        learned.learn(15 * S, 150 * S)
    assert charge_for(150 * S, learned, S, None) == pytest.approx(15 * S, rel=0.01)
    assert charge_for(10**6 * S, learned, S, None) == 30 * S
    assert charge_for(0, learned, S, None) == 15 * S // 64
    assert charge_for(None, learned, S, None) == pytest.approx(15 * S, rel=0.01)
    assert charge_for(None, None, 7 * S, None) == 7 * S
    assert charge_for(99 * S, None, S, 40 * S) == 40 * S


def test_an_ended_task_corrects_its_owner_both_ways():
    for charged, actual in ((10, 30), (30, 10)):
        memory = Memory()
        ended = Ended(work_class=1, tenant=1, user=1, charged=charged * S, actual=actual * S)
        plan(world(ended=(ended,)), memory)
        rows = memory.dump().nodes
        assert {rows[path]["vt"] for path in ("c1", "c1/t1", "c1/t1/u1")} == {(actual - charged) * S * 1000}


def test_an_overrun_is_charged_while_it_runs():
    memory = Memory()
    task = Running(id=5, work_class=1, tenant=1, user=1, started_at=NOW - 90 * S, charged=S, cost=90 * S)
    outcome = plan(world(running=(task,), loads=(running(1),)), memory)
    assert outcome.overruns == {5: 90 * S}
    assert memory.dump().nodes["c1"]["vt"] == 89 * S * 1000


# Where


def test_a_rare_worker_is_not_wasted_on_plain_work():
    fleet = (*slots(1, caps=("gpu",)), *slots(1, first=2))
    lanes = (lane(1, id=1), lane(1, id=2, tenant=2, caps={"gpu"}))
    places = {a.lane: a.session for a in plan(world(slots=fleet, lanes=lanes)).assignments}
    assert places == {1: 2, 2: 1}


def test_an_augmenting_path_moves_this_cycle_s_assignments():
    policy = Policy(classes={1: ClassPolicy(), 2: ClassPolicy(min=1)}, tenants={3: TenantPolicy(max=0)})
    fleet = (*slots(1, caps=("x", "y")), *slots(1, caps=("x", "z"), first=2))
    lanes = (
        lane(1, id=1, work_class=2, caps={"x"}),
        lane(1, id=2, tenant=2, caps={"y"}),
        lane(5, id=3, tenant=3, caps={"z"}),
    )
    places = {a.lane: a.session for a in plan(world(policy=policy, slots=fleet, lanes=lanes)).assignments}
    assert places == {1: 2, 2: 1}


def test_a_bound_session_takes_only_its_tenant_and_is_used_first():
    fleet = (Slot(id=1, worker=1, slots=1, free=1), Slot(id=2, worker=2, slots=1, free=1, tenant=2))
    lanes = (lane(1, id=1, tenant=1), lane(1, id=2, tenant=2))
    assert {a.lane: a.session for a in plan(world(slots=fleet, lanes=lanes)).assignments} == {1: 1, 2: 2}


def test_another_worker_is_preferred_after_a_failure_but_no_slot_is_left_idle():
    front = (Head(id=1, enqueued_at=NOW - S, est=S, avoid=1),)
    shy = replace(lane(1, id=1), heads=front)
    assert plan(world(slots=slots(2), lanes=(shy,))).assignments[0].worker == 2
    assert plan(world(slots=slots(1), lanes=(shy,))).assignments[0].worker == 1


def workers_chosen(weights: dict[int, int], rounds: int, batch: int = 1) -> Counter:
    """Who gets the work when every task ends before the next cycle."""
    memory, deficits, chosen = Memory(), dict.fromkeys(weights, 0), Counter()
    memory.scalars.cmax = 100 * S
    for _ in range(rounds):
        fleet = tuple(
            Slot(id=w, worker=w, slots=batch, free=batch, weight=n * S, deficit=deficits[w]) for w, n in weights.items()
        )
        outcome = plan(world(slots=fleet, lanes=(lane(batch, id=1),)), memory)
        deficits.update(memory.deficits)
        assert all(memory.deficits[worker] == deficit for worker, deficit in outcome.deficits.items())
        chosen.update(a.worker for a in outcome.assignments)
        assert sum(deficits.values()) == 0
    return chosen


def test_equal_weights_are_round_robin():
    assert workers_chosen({1: 1, 2: 1, 3: 1}, 30) == {1: 10, 2: 10, 3: 10}


@pytest.mark.parametrize(("rounds", "batch"), [(70, 1), (1, 70)])
def test_worker_weights_divide_the_work(rounds, batch):
    assert workers_chosen({1: 5, 2: 1, 3: 1}, rounds, batch) == {1: 50, 2: 10, 3: 10}


def test_few_deficits_are_stored_in_a_large_idle_fleet():
    """All competitors gain a little with each start; only the chosen one and those that gained much are written."""
    memory = Memory()
    memory.scalars.cmax = 10 * S
    outcome = plan(world(slots=slots(1000), lanes=(lane(3, id=1),)), memory)
    assert set(outcome.deficits) == {a.worker for a in outcome.assignments}
    assert len(memory.deficits) == 1000


def test_a_busy_worker_is_avoided():
    fleet = (Slot(id=1, worker=1, slots=9, free=3, load=60 * S), Slot(id=2, worker=2, slots=9, free=3))
    assert plan(world(slots=fleet, lanes=(lane(1, id=1),))).assignments[0].worker == 2


# Yields

BORROWED = Policy(reclaim_min_runtime=60 * S, classes={1: ClassPolicy(min=2), 2: ClassPolicy(min=4)})


def borrowers(n: int, *, ran: int = 300, first: int = 1, **more) -> tuple[Running, ...]:
    return tuple(
        Running(id=first + i, work_class=1, tenant=1, user=1, started_at=NOW - (ran + i) * S, charged=10**6 * S, **more)
        for i in range(n)
    )


def starved(policy: Policy = BORROWED, *, tasks=None, yielding: int = 0, waiting: int = 9):
    return world(
        policy=policy,
        slots=tuple(replace(slot, free=0) for slot in slots(8)),
        lanes=(lane(waiting, id=2, work_class=2, tenant=2),) if waiting else (),
        loads=(running(8, work_class=1, yielding=yielding),),
        running=borrowers(8) if tasks is None else tasks,
    )


def test_yields_fill_the_floor_youngest_first():
    assert plan(starved()).yields == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("snapshot", "asked"),
    [
        (starved(yielding=3), 1),
        (starved(yielding=4), 0),
        (starved(waiting=1), 1),
        (starved(waiting=0), 0),
        (starved(tasks=borrowers(8, ran=10)), 0),
        (starved(tasks=borrowers(8, yieldable=False)), 0),
        (starved(replace(BORROWED, reclaim_min_runtime=None)), 0),
        (starved(replace(BORROWED, reclaim_dead_zone=4)), 0),
        (starved(replace(BORROWED, reclaim_per_round=2)), 2),
        (starved(replace(BORROWED, classes={1: ClassPolicy(min=2), 2: ClassPolicy(min=4, preempt=False)})), 0),
        (starved(replace(BORROWED, classes={1: ClassPolicy(min=4), 2: ClassPolicy(min=4)})), 4),
        (starved(replace(BORROWED, classes={1: ClassPolicy(min=6), 2: ClassPolicy(min=2)})), 2),
    ],
)
def test_yields_never_exceed_what_is_short_nor_take_a_victim_below_its_floor(snapshot, asked):
    assert len(plan(snapshot).yields) == asked


def test_only_a_slot_that_the_waiting_work_can_use_is_asked_for():
    snapshot = starved(tasks=borrowers(8, session=1))
    needy = replace(snapshot, lanes=(lane(9, id=2, work_class=2, caps={"gpu"}),))
    assert plan(needy).yields == ()
    assert len(plan(snapshot).yields) == 4


# Stopped things


@pytest.mark.parametrize(
    "policy",
    [
        Policy(paused=True),
        Policy(classes={1: ClassPolicy(paused=True)}),
        Policy(tenants={1: TenantPolicy(paused=True)}),
        Policy(cost_budgets={1: CostBudget(tenant=1, left=0)}),
        Policy(tools={7: ToolPolicy(paused=True)}),
        Policy(tools={7: ToolPolicy(cooldown_until=NOW + S)}),
        Policy(tools={7: ToolPolicy(max=0)}),
        Policy(budget=0),
    ],
)
def test_what_is_stopped_does_not_start(policy):
    assert plan(world(policy=policy, slots=slots(3), lanes=(lane(3, id=1, tools=(7,)),))).assignments == ()


def test_a_limit_below_what_runs_stops_new_starts_and_disturbs_nobody_else():
    policy = Policy(classes={1: ClassPolicy()}, tenants={1: TenantPolicy(max=3)})
    lanes = (lane(5, id=1, tenant=1), lane(5, id=2, tenant=2))
    snapshot = world(policy=policy, slots=slots(4), lanes=lanes, loads=(running(6, tenant=1),))
    assert lanes_of(plan(snapshot)) == [2] * 4


# Explain


def why(snapshot, asked: Asked) -> dict:
    blockers = explain(snapshot, Memory(), asked, registry["fair"]).blockers
    for blocker in blockers:
        assert sentence(blocker, "name")
    return {b.code: (b.value, b.limit) for b in blockers}


def test_every_limit_in_the_way_is_named_with_its_numbers():
    policy = Policy(
        budget=5,
        user_max=1,
        classes={1: ClassPolicy(max=2, paused=True)},
        tenants={1: TenantPolicy(max=4)},
        tools={7: ToolPolicy(max=1, cooldown_until=NOW + 30 * S)},
    )
    here = lane(1, id=1, tools=(7,), caps={"gpu"})
    loads = (running(5, tools=(7,)),)
    codes = why(world(policy=policy, slots=slots(1), lanes=(here,), loads=loads), Asked(here.heads[0], here))
    assert codes.keys() >= {
        "paused",
        "pool_budget",
        "tenant_max",
        "user_max",
        "tool_cooldown",
        "no_capable_worker",
    }
    assert codes["tenant_max"] == (5, 4)
    assert codes["no_capable_worker"][0] == "gpu"


def test_limits_hidden_behind_a_pause_or_cooldown_are_named_too():
    policy = Policy(classes={1: ClassPolicy(max=2, paused=True)})
    here = lane(1, id=1)
    codes = why(world(policy=policy, slots=slots(1), lanes=(here,), loads=(running(2),)), Asked(here.heads[0], here))
    assert codes.keys() == {"paused", "class_max"}


def test_nobody_asking_is_not_the_same_as_all_busy():
    here = lane(1, id=1)
    asleep = world(slots=tuple(replace(s, free=0) for s in slots(2)), lanes=(here,))
    assert why(asleep, Asked(here.heads[0], here))["no_free_slot"][0] == NOBODY_ASKS
    busy = replace(asleep, loads=(running(2),))
    assert why(busy, Asked(here.heads[0], here))["no_free_slot"] == (2, 2)


def test_turn_and_place_are_told_apart():
    lanes = (lane(3, id=1, tenant=1), lane(3, id=2, tenant=2, at=NOW))
    snapshot = world(slots=slots(1), lanes=lanes)
    assert why(snapshot, Asked(lanes[0].heads[0], lanes[0])) == {}
    assert set(why(snapshot, Asked(lanes[0].heads[1], lanes[0], 1))) == {"behind_in_lane"}
    assert set(why(snapshot, Asked(lanes[1].heads[0], lanes[1]))) == {"lower_share"}


def test_what_waits_for_time_or_a_person_says_so():
    here = lane(1, id=1)
    snapshot = world(slots=slots(1))
    asked = Asked(here.heads[0], here, state=State.SCHEDULED, not_before=NOW + S)
    assert set(why(snapshot, asked)) == {"scheduled"}
    assert set(why(snapshot, replace(asked, retrying=True))) == {"backing_off"}
    assert set(why(snapshot, Asked(here.heads[0], here, state=State.HELD))) == {"held"}


# Cost budgets


def test_a_budget_pays_what_fits_and_the_lane_waits_for_the_rest_of_the_cycle():
    """35 units left, tasks of 10: three start. Another tenant, and the class that is spared, pay nothing."""
    policy = Policy(
        classes={1: ClassPolicy(), 2: ClassPolicy()},
        cost_budgets={7: CostBudget(tenant=1, left=35 * S, spared=2)},
    )
    lanes = (lane(9, id=1, tenant=1), lane(9, id=2, tenant=2), lane(9, id=3, tenant=1, work_class=2))
    done = plan(world(policy=policy, slots=slots(40), lanes=lanes))
    assert sorted(lanes_of(done)) == [1] * 3 + [2] * 9 + [3] * 9
    assert done.refused_by == {7}


def test_every_budget_of_a_task_has_to_have_enough():
    budgets = {1: CostBudget(tenant=1, left=90 * S), 2: CostBudget(tenant=1, work_class=1, left=20 * S)}
    budgets[3] = CostBudget(tenant=1, user=5, left=10 * S)
    policy = Policy(classes={1: ClassPolicy(), 2: ClassPolicy()}, cost_budgets=budgets)
    lanes = (lane(9, id=1), lane(9, id=2, user=5), lane(9, id=3, work_class=2))
    done = plan(world(policy=policy, slots=slots(40), lanes=lanes))
    assert lanes_of(done).count(3) == 7
    assert len([found for found in lanes_of(done) if found in (1, 2)]) == 2
    assert lanes_of(done).count(2) <= 1
    assert done.refused_by >= {1, 2}
