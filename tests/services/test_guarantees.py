"""What the policy guarantees, through the services on PostgreSQL: floors, yields, ages, limits, edits, restarts."""

from typing import Any

import pytest

from dispatch.core import policies
from dispatch.errors import Invalid
from dispatch.services import dispatch, policy, reclaim, requeue
from dispatch.store import snapshot
from tests import fleet
from tests.services.leader import Leader, forget, park, running

pytestmark = pytest.mark.django_db

ATTEMPT = "SELECT outcome, counted FROM attempt WHERE task_id = %s"
PREEMPTED = 7


@pytest.fixture
def leader() -> Leader:
    fleet.world()
    forget()
    return Leader()


def edit(kind: str, slug: str, **changes: Any) -> dict[str, Any]:
    version = policy.get(fleet.ROOT, kind, slug)["version"]
    return policy.patch(fleet.ROOT, kind, slug, version, changes, "test")


def older(seconds: int, *task_ids: int) -> None:
    """Let tasks have been submitted that much earlier."""
    fleet.sql(
        "UPDATE task SET enqueued_at = enqueued_at - make_interval(secs => %s),"
        " queued_at = queued_at - make_interval(secs => %s) WHERE id = ANY(%s)",
        seconds,
        seconds,
        list(task_ids),
    )


def ran(seconds: int) -> None:
    """Let everything that runs have run that long, fully charged."""
    fleet.sql(
        "UPDATE lease SET delivered_at = now() - make_interval(secs => %s), charged = %s", seconds, seconds * 1_000_000
    )


def tiers() -> dict[int, str]:
    return dict(fleet.sql("SELECT task_id, tier FROM lease"))


# Cooperative preemption


def borrowed(leader: Leader, slots: int = 2, **fields: Any) -> tuple[int, dict[int, int]]:
    """A session full of background tasks that run for 61 s, and a critical floor with work waiting: session, tokens."""
    edit("class", "critical", min=slots, **{"preempt": True} | fields)
    session = fleet.join("w", slots=slots).session_id
    leases = fleet.hold(session, *fleet.put(slots, work_class="background"))
    ran(61)
    fleet.put(5)
    return session, {lease.task_id: lease.token for lease in leases}


def test_a_borrower_is_asked_hands_back_and_the_floor_is_met(leader: Leader) -> None:
    session, tokens = borrowed(leader)
    ages = dict(fleet.sql("SELECT id, enqueued_at FROM task WHERE state = 2"))
    assert leader.cycle().yields == 2
    assert [lease.directive for lease in fleet.beat(session, *tokens.items())] == ["yield", "yield"]
    for task, token in tokens.items():
        assert fleet.ended("release", task, token) == "queued"
        assert fleet.ended("release", task, token) == "queued", "the same call again gets the same answer"
        assert fleet.sql(ATTEMPT, task) == [(PREEMPTED, False)]
    kept = fleet.sql("SELECT id, enqueued_at, attempts, handbacks FROM task WHERE id = ANY(%s)", list(tokens))
    assert {(id_, at) for id_, at, _, _ in kept} == set(ages.items())
    assert {(attempts, handbacks) for _, _, attempts, handbacks in kept} == {(0, 1)}
    park(session)
    assert leader.run() == 2
    assert running("work_class_id") == {"critical": 2}
    assert set(tiers().values()) == {"G"}
    assert fleet.ask(session).leases, "delivered"
    ran(600)
    assert leader.cycle().yields == 0, "the one at its floor is nobody's victim: no flapping"


def test_an_end_other_than_a_release_keeps_its_own_outcome(leader: Leader) -> None:
    _, tokens = borrowed(leader)
    leader.cycle()
    (done, token), (failed, other) = tokens.items()
    assert fleet.ended("complete", done, token) == "succeeded"
    assert fleet.ended("fail", failed, other) == "scheduled"
    assert fleet.value("SELECT attempts FROM task WHERE id = %s", failed) == 1


def test_who_does_not_hand_back_within_the_grace_is_taken_from(leader: Leader) -> None:
    _, tokens = borrowed(leader)
    leader.cycle()
    assert reclaim.sweep().preempted == 0
    fleet.sql("UPDATE lease SET directive_at = now() - interval '31 s'")
    assert reclaim.sweep().preempted == 2
    assert {row for task in tokens for row in fleet.sql(ATTEMPT, task)} == {(PREEMPTED, False)}


def test_a_class_that_may_not_preempt_waits_for_free_slots(leader: Leader) -> None:
    borrowed(leader, preempt=False)
    assert leader.cycle().yields == 0


def test_nobody_yields_before_the_minimum_runtime(leader: Leader) -> None:
    borrowed(leader)
    ran(59)
    assert leader.cycle().yields == 0
    edit("pool", "default", reclaim_min_runtime_s=None)
    ran(600)
    assert leader.cycle().yields == 0, "null: never"


def test_yields_are_bounded_per_round_and_a_small_shortage_is_borne(leader: Leader) -> None:
    edit("pool", "default", reclaim_per_round=1)
    borrowed(leader, slots=3)
    assert [leader.cycle().yields for _ in range(3)] == [1, 1, 1]
    fleet.sql("UPDATE lease SET directive = 0")
    edit("pool", "default", reclaim_dead_zone=3, reclaim_per_round=None)
    assert leader.cycle().yields == 0
    edit("pool", "default", reclaim_dead_zone=2)
    assert leader.cycle().yields == 3


# Age and place


def test_an_overdue_lane_is_promoted_within_its_slots(leader: Leader) -> None:
    edit("class", "critical", weight=1000)
    edit("class", "background", max_wait_s=60)
    edit("pool", "default", promotion_slots=1)
    late = fleet.put(3, work_class="background")
    older(61, *late)
    fleet.put(50)
    park(fleet.join("w", slots=10).session_id)
    assert leader.run() == 10
    assert tiers()[late[0]] == "P"
    assert list(tiers().values()).count("P") == 1
    assert running("work_class_id") == {"background": 1, "critical": 9}


def test_a_task_that_came_back_keeps_its_age_for_promotion(leader: Leader) -> None:
    edit("class", "critical", weight=1000)
    edit("class", "background", max_wait_s=60)
    held = fleet.held(work_class="background")
    older(61, held.task)
    assert fleet.ended("release", held.task, held.token) == "queued"
    assert fleet.value("SELECT queued_at = now() FROM task WHERE id = %s", held.task), "its startable wait is new"
    fleet.put(50)
    park(fleet.join("w", slots=4).session_id)
    leader.run()
    assert tiers()[held.task] == "P"


def test_age_lifts_a_level_and_an_old_task_behind_a_high_priority_counts(leader: Leader) -> None:
    edit("class", "background", level=3, aging_step_s=30)
    (old,) = fleet.put(work_class="background", priority=-5)
    (fresh,) = fleet.put(work_class="background", priority=5)
    fleet.put(10)
    park(fleet.join("w", slots=1).session_id)
    leader.run()
    assert running("work_class_id") == {"critical": 1}, "level 1 first"
    older(60, old)
    park(fleet.join("w2", slots=2).session_id)
    leader.run()
    assert running("work_class_id")["background"] >= 1, "two steps: level 1 by now, and behind by one task"
    assert fresh in tiers(), "inside the lane priority decides"


@pytest.mark.parametrize("back", ["release", "reclaim", "retry", "preempt"])
def test_whoever_comes_back_has_its_old_place(leader: Leader, back: str) -> None:
    held = fleet.held()
    older(1, held.task)
    others = fleet.put(3)
    if back == "reclaim":
        fleet.sql("UPDATE lease SET expires_at = now() - interval '1 s', renewed_at = now() - interval '31 s'")
        fleet.sql(
            "INSERT INTO process (kind, host, pid, info, up_since, beat_at)"
            " VALUES ('web', '', 1, '{}', now() - interval '1 h', now())"
        )
        assert reclaim.sweep().lost == 1
    elif back == "retry":
        assert fleet.ended("fail", held.task, held.token) == "scheduled"
        fleet.sql("UPDATE task SET run_at = now() WHERE id = %s", held.task)
    else:
        if back == "preempt":
            fleet.sql("UPDATE lease SET directive = 1, directive_at = now()")
        assert fleet.ended("release", held.task, held.token) == "queued"
    park(fleet.join("fresh").session_id)
    assert leader.run() == 1
    assert list(tiers()) == [held.task]
    assert [fleet.state(task) for task in others] == [1, 1, 1]


def test_an_operators_requeue_goes_to_the_back(leader: Leader) -> None:
    held = fleet.held()
    older(10, held.task)
    assert fleet.ended("fail", held.task, held.token, error={"message": "no", "kind": "permanent"}) == "dead"
    waiting = fleet.put(2)
    older(5, *waiting)
    requeue.requeue(fleet.ROOT, held.task, "again")
    park(fleet.join("fresh", slots=2).session_id)
    leader.run()
    assert sorted(tiers()) == waiting


# Lending and limits


@pytest.mark.parametrize(("lend", "used"), [(None, 10), (3, 8), (0, 5)])
def test_an_idle_minimum_is_lent_as_far_as_the_class_lends(leader: Leader, lend: int | None, used: int) -> None:
    edit("class", "critical", min=5, lend=lend)
    park(fleet.join("w", slots=10).session_id)
    fleet.put(20, work_class="background")
    assert leader.run() == used
    fleet.put(20)
    assert leader.run() == 10 - used, "what was kept back is there for its owner"


def test_every_limit_holds_and_is_reached(leader: Leader) -> None:
    policy.create(fleet.ROOT, "tool", "crm", {"max": 2})
    park(fleet.join("w", slots=100).session_id)
    fleet.put(10, tools=("crm",))
    leader.run()
    assert running() == {"alpha": 2}, "tool"
    edit("tool", "crm", max=0)
    fleet.put(10, user="ann")
    edit("pool", "default", user_max=4)
    leader.run()
    assert running() == {"alpha": 6}, "pool's user_max"
    edit("tenant", "alpha", user_max=5)
    leader.run()
    assert running() == {"alpha": 7}, "the tenant's own user_max is stronger"
    fleet.sql("UPDATE tenant_user SET max = 6 WHERE name = 'ann'")
    leader.run()
    assert running() == {"alpha": 8}, "and the user's own"
    edit("pool", "default", user_max=None)
    edit("tenant", "alpha", user_max=None, max=12)
    fleet.put(20, user="bob")
    leader.run()
    assert running() == {"alpha": 12}, "tenant"
    edit("tenant", "alpha", max=None, nominal=10, borrow=4)
    leader.run()
    assert running() == {"alpha": 14}, "nominal and borrow"
    edit("class", "background", max=3)
    fleet.put(10, tenant="beta", work_class="background")
    leader.run()
    assert running() == {"alpha": 14, "beta": 3}, "class"
    edit("class", "background", max=None)
    edit("pool", "default", budget=19)
    leader.run()
    assert running() == {"alpha": 14, "beta": 5}, "pool"
    fleet.invariants()


def test_a_limit_below_what_runs_stops_nothing_and_starts_nothing(leader: Leader) -> None:
    session = fleet.join("w", slots=20).session_id
    leases = fleet.hold(session, *fleet.put(6))
    park(session)
    fleet.put(20)
    for most in (3, 0):
        edit("tenant", "alpha", max=most)
        fleet.put(1, tenant="beta")
        leader.run()
        assert running()["alpha"] == 6
    assert running()["beta"] == 2, "undisturbed"
    edit("tenant", "alpha", max=3)
    for lease in leases[:4]:
        fleet.ended("complete", lease.task_id, lease.token)
    leader.run()
    assert running()["alpha"] == 3


def test_an_edited_weight_acts_at_the_next_cycle_on_what_is_queued(leader: Leader) -> None:
    fleet.put(100)
    fleet.put(100, tenant="beta")
    park(fleet.join("w", slots=20).session_id)
    leader.run()
    assert running() == {"alpha": 10, "beta": 10}
    edit("tenant", "beta", weight=3)
    park(fleet.join("w2", slots=40).session_id)
    assert leader.cycle().assigned == 40
    assert running() == {"alpha": 20, "beta": 40}


# Pools


def test_two_pools_have_two_leaders_and_limits_of_their_own(leader: Leader) -> None:
    policy.create(fleet.ROOT, "pool", "second", {"budget": 5})
    policy.create(fleet.ROOT, "class", "elsewhere", {"pool": "second"})
    policy.create(fleet.ROOT, "tool", "crm", {"max": 2})
    edit("tenant", "alpha", max=3, user_max=3)
    other = Leader("second")
    for session in (fleet.join("a", slots=9), fleet.join("b", slots=9, pool="second")):
        park(session.session_id)
    for fields in ({"work_class": "critical"}, {"work_class": "elsewhere", "pool": "second"}):
        fleet.put(9, tools=("crm",), **fields)
        fleet.put(9, user="ann", **fields)
        fleet.put(9, tenant="beta", **fields)
    assert leader.run() == 9
    assert other.run() == 5
    assert running(pool="default") == {"alpha": 3, "beta": 6}
    assert running(pool="second") in ({"alpha": 3, "beta": 2}, {"alpha": 2, "beta": 3})
    assert leader.run() == other.run() == 0
    nodes = fleet.sql("SELECT p.slug, count(*) > 2 FROM share_account s JOIN pool p ON p.id = s.pool_id GROUP BY 1")
    assert sorted(nodes) == [("default", True), ("second", True)], "accounts of their own"


def test_each_pool_chooses_its_policy(leader: Leader) -> None:
    edit("class", "critical", weight=2, min=3)
    assert policy.get(fleet.ROOT, "pool", "default")["policy"] == "fair"
    fleet.put(100)
    fleet.put(100, work_class="background")
    expected = {
        "fair": {"critical": 6, "background": 3},
        "strict": {"critical": 9},
        "reserved": {"critical": 3},
    }
    assert set(expected) == set(policies.registry)
    for name, shares in expected.items():
        edit("pool", "default", policy=name)
        session = fleet.join(name, slots=9).session_id
        park(session)
        leader.run()
        assert running("work_class_id") == shares, name
        fleet.workers.goodbye(fleet.AGENT, session)
        fleet.sql("DELETE FROM settlement")
    with pytest.raises(Invalid) as refused:
        edit("pool", "default", policy="lottery")
    assert refused.value.errors[0]["field"] == "policy"


# Accounts


def test_who_says_too_little_pays_for_what_it_took(leader: Leader) -> None:
    fleet.put(40, cost=1)
    fleet.put(40, tenant="beta", cost=10)
    session = fleet.join("w", slots=1).session_id
    order = []
    for _ in range(40):
        park(session)
        leader.run()
        (lease,) = fleet.ask(session).leases
        order.append(lease.tenant)
        fleet.ended("complete", lease.task_id, lease.token, cost=10)
    assert 18 <= order.count("alpha") <= 22


def test_a_new_leader_plans_what_the_old_one_would_have(leader: Leader) -> None:
    """Restart equivalence: at several points of a run the stored memory gives the same plan and the same accounts."""
    edit("class", "critical", weight=3, min=2, max_wait_s=30)
    edit("class", "background", level=2, aging_step_s=60)
    names = [f"w{n}" for n in range(4)]
    sessions = [fleet.join(name, slots=3, caps=("gpu",) if name == "w3" else ()).session_id for name in names]
    for n in range(6):
        shape: dict[str, Any] = {"tenant": "alpha" if n % 2 else "beta", "user": f"u{n}", "type": f"t{n % 3}"}
        fleet.put(12, work_class="critical" if n % 3 else "background", cost=n or None, **shape)
        fleet.put(2, capabilities=("gpu",), **shape)
    compared = 0
    for step in range(6):
        for session in sessions:
            if not fleet.sql("SELECT 1 FROM demand WHERE session_id = %s", session):
                fleet.ask(session, wait_s=10)
        leader.cycle()
        heir = dispatch.load_memory(leader.pool)
        assert heir.accounts.dump() == leader.memory.accounts.dump()
        for n, session in enumerate(sessions):
            for lease in fleet.ask(session).leases[: 1 + (n + step) % 3]:
                fleet.ended("complete", lease.task_id, lease.token, cost=1 + (lease.task_id * 7) % 11)
            fleet.ask(session, wait_s=10)
        view = snapshot.read(leader.pool, lanes_before=1).snapshot
        plans = [policies.registry["fair"](view, memory.accounts) for memory in (leader.memory, heir)]
        assert plans[0] == plans[1]
        assert leader.memory.accounts.changes() == heir.accounts.changes()
        compared += len(plans[0].assignments)
        leader.memory.accounts.rollback()
    assert compared > 10
