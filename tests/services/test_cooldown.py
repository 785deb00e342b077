"""Tool cooldown: one word of one agent cools a tool for the whole fleet, holds no worker, and blocks nobody else."""

import pytest

from dispatch.services import explain, overview, policy
from tests import fleet
from tests.services.leader import Leader, forget, park

pytestmark = pytest.mark.django_db

LIMITED = {"message": "429", "kind": "tool_limited"}


@pytest.fixture
def leaders() -> tuple[Leader, Leader]:
    """The leaders of two pools, and a tool that both pools use."""
    fleet.world()
    policy.create(fleet.ROOT, "pool", "other", {})
    policy.create(fleet.ROOT, "class", "elsewhere", {"pool": "other"})
    policy.create(fleet.ROOT, "tool", "crm", {})
    forget()
    return Leader(), Leader("other")


def given() -> list[int]:
    """What the dispatcher has handed out, oldest first."""
    return [row[0] for row in fleet.sql("SELECT task_id FROM lease ORDER BY task_id")]


def test_one_word_cools_the_tool_for_the_fleet_and_blocks_nobody_else(leaders: tuple[Leader, Leader]) -> None:
    leader, other = leaders
    teller = fleet.join("teller").session_id
    (told,) = fleet.put(1, tools=("crm",))
    (lease,) = fleet.hold(teller, told)
    waiting = fleet.put(3, tools=("crm",), priority=50)
    plain = fleet.put(2)
    (abroad,) = fleet.put(1, tools=("crm",), work_class="elsewhere", pool="other")
    assert fleet.ended("fail", told, lease.token, error=LIMITED, retry_after_s=90) == "scheduled"
    assert fleet.value("SELECT attempts FROM task WHERE id = %s", told) == 0

    for name in ("w1", "w2", "w3", "teller"):
        park(fleet.join(name).session_id)
    park(fleet.join("far", pool="other").session_id)
    assert leader.run() == 2, "what needs the tool waits, though it is older and more urgent; the rest goes on"
    assert given() == plain
    assert other.run() == 0, "in every pool"
    assert fleet.value("SELECT count(*) FROM lease WHERE task_id = ANY(%s)", [*waiting, abroad]) == 0

    why = explain.why(fleet.ROOT, waiting[0])
    assert "tool_cooldown" in [blocker["code"] for blocker in why["blockers"]]
    (shown,) = [row for row in overview.overview(fleet.ROOT)["classes"] if row["slug"] == "critical"]
    assert (shown["limited"], shown["oldest_age_s"]) == (3, None), "that is a limit, not starvation"

    fleet.sql("UPDATE tool SET cooldown_until = now() + interval '1 ms'")
    assert leader.run() == 0, "not a moment before its time"
    fleet.sql("UPDATE tool SET cooldown_until = now()")
    fleet.sql("UPDATE task SET run_at = now() WHERE id = %s", told)
    assert (leader.run(), other.run()) == (2, 1), "after the time they run: two workers were left free"
    assert given() == sorted([*plain, *waiting[:2], abroad])
    fleet.invariants()


def test_an_operator_can_end_a_cooldown(leaders: tuple[Leader, Leader]) -> None:
    leader, _ = leaders
    held = fleet.held("teller", tools=("crm",))
    (waits,) = fleet.put(1, tools=("crm",))
    fleet.ended("fail", held.task, held.token, error=LIMITED)
    park(fleet.join().session_id)
    assert leader.run() == 0
    version = policy.get(fleet.ROOT, "tool", "crm")["version"]
    policy.patch(fleet.OPERATOR, "tool", "crm", version, {"cooldown_until": None}, "the vendor has raised the limit")
    assert leader.run() == 1
    assert given() == [waits], "the one that met the limit still waits for its own time"
