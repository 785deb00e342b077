"""The scheduler's promises on generated saturated worlds, through the simulator: shares, floors, waits, honesty."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.core.memory import Memory
from dispatch.core.policies import registry
from dispatch.core.sim import load, simulate
from dispatch.core.types import MICRO, ClassPolicy, Policy
from tests.core.generated import EXAMPLES
from tests.core.worlds import S, lane, plan, slots, world

few = settings(max_examples=max(4, EXAMPLES // 8), deadline=None)
weights = st.integers(1, 9)


def sustain(work_class: str, tenant: str, dur, **more):
    return {"kind": "sustain", "class": work_class, "tenant": tenant, "dur": dur, **more}


def run(workload, *, slots=8, horizon=1500, warmup=300, policy="fair", **config):
    document = {
        "name": "generated",
        "config": {"global_budget": slots, "classes": {"a": {}}, **config},
        "workers": [{"id": "w", "count": slots}],
        "horizon": horizon,
        "warmup": warmup,
        "workload": workload,
    }
    return simulate(load(document)[0], registry[policy])


class Charges:
    """Charged cost per tenant while several are continuously eligible: the plan loop without time passing."""

    def __init__(self, policy: Policy, lanes, free: int) -> None:
        self.memory = Memory()
        self.policy, self.lanes, self.free = policy, lanes, free
        self.charged = {x.tenant: 0 for x in lanes}

    def cycle(self) -> None:
        outcome = plan(world(policy=self.policy, slots=slots(self.free), lanes=self.lanes), self.memory)
        tenant = {x.id: x.tenant for x in self.lanes}
        for a in outcome.assignments:
            self.charged[tenant[a.lane]] += a.charged


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    parts=st.lists(st.tuples(weights, st.integers(1, 60)), min_size=2, max_size=5),
    free=st.integers(1, 7),
    cycles=st.integers(1, 8),
)
def test_charged_service_stays_within_one_task_each(parts, free, cycles):
    """|S_i/w_i - S_j/w_j| <= c_i/w_i + c_j/w_j for siblings that stay eligible, whatever the batch sizes."""
    from dispatch.core.types import TenantPolicy

    policy = Policy(
        classes={1: ClassPolicy()}, tenants={t: TenantPolicy(weight=w * S) for t, (w, _) in enumerate(parts, 1)}
    )
    lanes = tuple(lane(10, id=t, tenant=t, est=c * S) for t, (_, c) in enumerate(parts, 1))
    charges = Charges(policy, lanes, free)
    for _ in range(cycles):
        charges.cycle()
        normal = {t: Fraction(charges.charged[t], w * S) for t, (w, _) in enumerate(parts, 1)}
        for i, (wi, ci) in enumerate(parts, 1):
            for j, (wj, cj) in enumerate(parts, 1):
                assert abs(normal[i] - normal[j]) <= Fraction(ci, wi) + Fraction(cj, wj) + Fraction(1, 10**6)


@few
@given(one=weights, two=weights, durations=st.tuples(st.integers(5, 40), st.integers(5, 40)))
def test_weighted_shares_converge(one, two, durations):
    report = run(
        [sustain("a", "x", durations[0]), sustain("b", "x", durations[1])],
        slots=10,
        horizon=3000,
        classes={"a": {"weight": one}, "b": {"weight": two}},
    )
    assert abs(report["slots"]["class:a"] - 10 * one / (one + two)) <= 0.25 + 0.04 * 10


@few
@given(least=st.integers(1, 6), longest=st.integers(20, 60), heavy=weights)
def test_a_floor_is_filled_within_one_task(least, longest, heavy):
    """A class that comes back is at its minimum again within the longest task that runs."""
    report = run(
        [sustain("big", "x", {"uniform": [5, longest]}), sustain("small", "x", 20, start=400)],
        horizon=700,
        classes={"big": {"weight": heavy}, "small": {"weight": 1, "min": least}},
    )
    assert report["below_min_max"].get("small", 0) <= longest


@few
@given(tenants=st.integers(1, 6), promotion=st.integers(1, 2), max_wait=st.integers(30, 90))
def test_promotion_bounds_every_lane_s_wait(tenants, promotion, max_wait):
    """Gap <= max_wait + ceil(lanes / slots) * longest task, and promoted tasks never hold more than their slots."""
    report = run(
        [sustain("busy", "x", 20), *(sustain("slow", f"t{i}", 20, depth=3) for i in range(tenants))],
        slots=4,
        horizon=1200,
        classes={"busy": {"weight": 999}, "slow": {"weight": 1, "max_wait": max_wait}},
        promotion_slots=promotion,
    )
    bound = max_wait + ceil(tenants / promotion) * 20
    for i in range(tenants):
        assert report["lane_gap_max"][f"slow/t{i}"] <= bound
    assert report["share"]["class:busy"] >= 1 - promotion / 4 - 0.05


@few
@given(parts=st.lists(weights, min_size=2, max_size=4))
def test_nobody_with_a_weight_starves_without_promotion(parts):
    """Wait <= (sum over the others of w_j (c/w_i + 2c/w_j)) / slots + one task."""
    cost, free = 20, 4
    report = run(
        [sustain("a", f"t{i}", cost, depth=3) for i in range(len(parts))],
        slots=free,
        horizon=2000,
        warmup=0,
        tenants={f"t{i}": {"weight": w} for i, w in enumerate(parts)},
    )
    for i, mine in enumerate(parts):
        ahead = sum(w * (cost / mine + 2 * cost / w) for j, w in enumerate(parts) if j != i)
        assert report["lane_gap_max"][f"a/t{i}"] <= ahead / free + cost


def test_strict_priority_starves_where_the_fair_policy_does_not():
    load_ = [sustain("a", "x", 20), sustain("b", "x", 20)]
    classes = {"a": {"weight": 9}, "b": {"weight": 1}}
    assert run(load_, slots=4, classes=classes, policy="strict")["share"].get("class:b", 0) == 0
    assert run(load_, slots=4, classes=classes)["share"]["class:b"] > 0.05


@few
@given(low=weights, more=st.integers(1, 5), others=st.lists(weights, min_size=1, max_size=3))
def test_a_larger_weight_never_gets_less(low, more, others):
    def share(mine: int) -> float:
        return run(
            [sustain(c, "x", 15) for c in ("mine", *(f"o{i}" for i in range(len(others))))],
            horizon=1200,
            classes={"mine": {"weight": mine}, **{f"o{i}": {"weight": w} for i, w in enumerate(others)}},
        )["share"]["class:mine"]

    assert share(low + more) >= share(low) - 0.02


@few
@given(users=st.integers(2, 12), weight=weights)
def test_splitting_into_users_gains_nothing(users, weight):
    def shares(more: dict):
        report = run(
            [sustain("a", "one", 15), sustain("a", "two", 15, **more)],
            horizon=900,
            tenants={"two": {"weight": weight}},
        )
        return report["share"]["tenant:two"]

    assert abs(shares({}) - shares({"users": {"prefix": "u", "count": users}})) <= 0.01


@few
@given(factor=st.sampled_from([0.001, 0.02, 0.5, 3, 40, 1000]), hidden=st.booleans())
def test_scaling_the_hints_moves_no_share(factor, hidden):
    est = {"est": None} if hidden else {"est": 15 * factor}
    report = run(
        [sustain("a", "liar", 15, **est), sustain("a", "mate", 15), sustain("b", "peer", 15)],
        slots=12,
        horizon=4000,
        warmup=600,
        classes={"a": {}, "b": {}},
        max_task_cost=3600,
    )
    assert abs(report["share"]["tenant:liar"] - 0.25) <= 0.025
    assert abs(report["share"]["class:b"] - 0.5) <= 0.025


@few
@given(away=st.integers(100, 2000), weight=weights)
def test_who_was_away_gets_its_share_and_no_back_pay(away, weight):
    report = run(
        [sustain("a", "stays", {"uniform": [5, 15]}), sustain("a", "returns", {"uniform": [5, 15]}, start=away)],
        slots=10,
        horizon=away + 800,
        warmup=away,
        tenants={"returns": {"weight": weight}},
    )
    assert report["share"]["tenant:returns"] <= weight / (weight + 1) + 0.03


@few
@given(backlog=st.sampled_from([10, 1000, 1_000_000]), poison=st.booleans(), dur=st.sampled_from([1, 10]))
def test_a_flood_never_delays_a_quiet_tenant_beyond_one_task(backlog, poison, dur):
    report = run(
        [
            {"kind": "burst", "class": "a", "tenant": "flood", "count": backlog, "dur": dur, "poison": poison},
            {"kind": "periodic", "class": "a", "tenant": "quiet", "start": 33, "every": 50, "dur": 10},
        ],
        horizon=600,
        warmup=0,
    )
    assert report["wait"]["tenant:quiet"]["max"] <= 10


def test_a_weight_of_nothing_gets_what_nobody_wants():
    report = run(
        [sustain("a", "x", 10), sustain("z", "x", 10)], classes={"a": {"weight": 1}, "z": {"weight": 0}}, horizon=600
    )
    assert report["share"].get("class:z", 0) == 0


def test_an_edit_acts_on_what_is_queued_already():
    """Same memory, same lanes, another policy: the next cycle follows the new weights."""
    memory = Memory()
    lanes = (lane(40, id=1, work_class=1), lane(40, id=2, work_class=2))
    before = Policy(classes={1: ClassPolicy(), 2: ClassPolicy()})
    after = replace(before, classes={1: ClassPolicy(weight=3 * MICRO), 2: ClassPolicy()})
    even = plan(world(policy=before, slots=slots(8), lanes=lanes), memory)
    edited = plan(world(policy=after, slots=slots(40), lanes=lanes), memory)
    assert sum(a.lane == 1 for a in even.assignments) == 4
    assert 28 <= sum(a.lane == 1 for a in edited.assignments) <= 32
