"""One cycle at a time: who goes first, and what the plan and the memory say afterwards."""

from collections import Counter

from dispatch.core.memory import Memory
from dispatch.core.policies import registry
from dispatch.core.types import ClassPolicy, Policy, TenantPolicy
from tests.core.worlds import S, lane, plan, slots, world

SIXTY_THIRTY_TEN = Policy(
    classes={1: ClassPolicy(weight=6 * S), 2: ClassPolicy(weight=3 * S), 3: ClassPolicy(weight=1 * S)}
)


def three_classes(free: int = 100):
    return world(
        policy=SIXTY_THIRTY_TEN,
        slots=slots(free),
        lanes=tuple(lane(200, id=c, work_class=c, tenant=c) for c in (1, 2, 3)),
    )


def by_lane(outcome) -> Counter:
    return Counter(a.lane for a in outcome.assignments)


def test_weights_divide_the_slots():
    assert by_lane(plan(three_classes())) == {1: 60, 2: 30, 3: 10}


def test_tasks_of_a_lane_start_in_order_and_every_slot_takes_one():
    outcome = plan(three_classes())
    tasks = [a.task for a in outcome.assignments if a.lane == 2]
    assert tasks == sorted(tasks)
    assert len({a.session for a in outcome.assignments}) == 100


def test_a_tenant_maximum_stops_it_and_others_take_the_rest():
    policy = Policy(classes={1: ClassPolicy()}, tenants={1: TenantPolicy(max=3)})
    lanes = (lane(20, id=1, tenant=1), lane(20, id=2, tenant=2))
    assert by_lane(plan(world(policy=policy, slots=slots(10), lanes=lanes))) == {1: 3, 2: 7}


def test_rollback_forgets_the_cycle():
    memory = Memory()
    plan(three_classes(10), memory)
    before = memory.dump()
    registry["fair"](three_classes(50), memory)
    assert memory.dump() != before
    memory.rollback()
    assert memory.dump() == before


def test_changes_hold_exactly_the_rows_that_differ():
    memory = Memory()
    plan(three_classes(10), memory)
    before = memory.dump()
    snapshot = world(policy=SIXTY_THIRTY_TEN, slots=slots(5), lanes=(lane(50, id=2, work_class=2, tenant=2),))
    registry["fair"](snapshot, memory)
    changes = memory.changes()
    stored = {**before.nodes, **changes.nodes}
    assert {path: row for path, row in stored.items() if row is not None} == memory.dump().nodes
    assert all(before.nodes.get(path) != row for path, row in changes.nodes.items())


def test_a_reloaded_memory_plans_the_same():
    memory = Memory()
    plan(three_classes(37), memory)
    memory.deficits = {}  # a new leader has those that are stored with the workers
    rows = memory.dump()
    again = Memory.load(rows.nodes, rows.learned, rows.scalars)
    assert plan(three_classes(41), again) == plan(three_classes(41), memory)
    assert again.dump() == memory.dump()
