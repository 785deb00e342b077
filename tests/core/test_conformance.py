"""What every registered policy keeps, whatever it prefers: limits, work conservation, determinism, restart, explain."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.core.explain import Asked, explain, lift
from dispatch.core.memory import Memory
from dispatch.core.policies import judged, registry
from dispatch.core.types import MICRO
from tests.core.generated import EXAMPLES, snapshots
from tests.core.judge import Judge

every_policy = pytest.mark.parametrize("name", sorted(registry))
examples = settings(max_examples=EXAMPLES, deadline=None)


def warmed(memory_seed, name: str) -> Memory:
    """A memory with a history: a few cycles of other worlds."""
    memory = Memory()
    for snapshot in memory_seed:
        registry[name](snapshot, memory)
        memory.commit()
    return memory


histories = st.lists(snapshots(), max_size=2)


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_no_limit_is_exceeded(name, snapshot, history):
    plan = registry[name](snapshot, warmed(history, name))
    assert Judge(judged(name, snapshot)[0], plan).broken(plan) == []


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_no_startable_task_waits_beside_a_usable_slot(name, snapshot, history):
    plan = registry[name](snapshot, warmed(history, name))
    assert Judge(judged(name, snapshot)[0], plan).idle() == []


@every_policy
@examples
@given(snapshot=snapshots(), history=histories, seed=st.integers(0, 1000))
def test_the_order_of_the_input_does_not_matter(name, snapshot, history, seed):
    rng = random.Random(seed)
    shuffled = replace(
        snapshot,
        lanes=tuple(rng.sample(snapshot.lanes, len(snapshot.lanes))),
        slots=tuple(rng.sample(snapshot.slots, len(snapshot.slots))),
        loads=tuple(rng.sample(snapshot.loads, len(snapshot.loads))),
    )
    one, two = warmed(history, name), warmed(history, name)
    assert registry[name](snapshot, one) == registry[name](shuffled, two)
    assert one.dump() == two.dump()


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_a_restart_changes_nothing(name, snapshot, history):
    memory = warmed(history, name)
    memory.deficits = {}  # a new leader has those that are stored with the workers
    rows = memory.dump()
    again = Memory.load(rows.nodes, rows.learned, rows.scalars)
    assert registry[name](snapshot, again) == registry[name](snapshot, memory)
    assert again.dump() == memory.dump()


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_a_rollback_leaves_no_trace(name, snapshot, history):
    memory = warmed(history, name)
    before = memory.dump()
    first = registry[name](snapshot, memory)
    memory.rollback()
    assert memory.dump() == before
    assert registry[name](snapshot, memory) == first


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_stored_changes_add_up_to_the_memory(name, snapshot, history):
    memory = Memory()
    nodes, learned = {}, {}
    for world in (*history, snapshot):
        registry[name](world, memory)
        changes = memory.changes()
        memory.commit()
        nodes.update(changes.nodes)
        learned.update(changes.learned)
    kept = {path: row for path, row in nodes.items() if row is not None}
    assert Memory.load(kept, learned, changes.scalars).dump() == memory.dump()


@every_policy
@examples
@given(snapshot=snapshots(), history=histories, data=st.data())
def test_explain_agrees_with_dispatch(name, snapshot, history, data):
    """A task without blockers starts in the next cycle; one with blockers does not."""
    snapshot, planner = judged(name, snapshot)
    if not snapshot.lanes:
        return
    memory = warmed(history, name)
    lane = data.draw(st.sampled_from(snapshot.lanes))
    ahead = data.draw(st.integers(0, len(lane.heads) - 1))
    asked = Asked(lane.heads[ahead], lane, ahead)
    explanation = explain(snapshot, memory, asked, planner)
    started = {a.task for a in planner(snapshot, memory).assignments}
    assert explanation.startable == (asked.head.id in started), explanation


@every_policy
@examples
@given(snapshot=snapshots(), history=histories, data=st.data())
def test_removing_the_blockers_makes_the_task_start(name, snapshot, history, data):
    snapshot, planner = judged(name, snapshot)
    if not snapshot.lanes:
        return
    memory = warmed(history, name)
    lane = data.draw(st.sampled_from(snapshot.lanes))
    asked = Asked(lane.heads[-1], lane, len(lane.heads) - 1)
    explanation = explain(snapshot, memory, asked, planner)
    codes = {b.code for b in explanation.blockers}
    for blocker in explanation.blockers:
        if blocker.code not in ("behind_in_lane", "lower_share"):
            snapshot = lift(snapshot, lane, blocker)
    if "lower_share" in codes:
        snapshot = replace(snapshot, lanes=tuple(x for x in snapshot.lanes if x.id == lane.id))
    if "behind_in_lane" in codes:
        alone = replace(lane, heads=(asked.head,), queued=1)
        snapshot = replace(snapshot, lanes=(*(x for x in snapshot.lanes if x.id != lane.id), alone))
    started = {a.task for a in planner(snapshot, memory).assignments}
    assert asked.head.id in started, explanation


@every_policy
@examples
@given(snapshot=snapshots(), history=histories)
def test_worker_deficits_keep_their_sum(name, snapshot, history):
    memory = warmed(history, name)
    memory.scalars.cmax = 10**6 * MICRO  # far from the clamp
    old = {slot.worker: memory.deficits.get(slot.worker, slot.deficit) for slot in snapshot.slots}
    registry[name](snapshot, memory)
    assert memory.deficits.keys() == old.keys()
    assert sum(memory.deficits.values()) == sum(old.values())
