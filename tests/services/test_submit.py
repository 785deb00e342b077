"""Submit: what is taken, what is refused and where the refusal points."""

from typing import Any

import pytest

from dispatch.services import access, policy, tasks
from dispatch.services.messages import TaskSpec
from dispatch.services.submit import submit

pytestmark = pytest.mark.django_db
ROOT = access.system("test")


def spec(**fields: Any) -> TaskSpec:
    return TaskSpec(**{"tenant": "alpha", "work_class": "critical", "payload": {"n": 1}} | fields)


@pytest.fixture(autouse=True)
def world() -> None:
    for slug in ("alpha", "beta"):
        policy.create(ROOT, "tenant", slug, {})
    policy.create(ROOT, "class", "critical", {"weight": 6})
    policy.create(ROOT, "pool", "other", {})
    policy.create(ROOT, "class", "elsewhere", {"pool": "other"})
    policy.create(ROOT, "tool", "crm", {})


def test_a_batch_is_taken_in_order_and_can_be_read() -> None:
    first, second = submit(ROOT, [spec(), spec(user="ann", capabilities=("gpu", "code"), tools=("crm",), cost=2.5)])
    assert (first.state, first.created) == ("queued", True)
    assert second.id > first.id
    assert second.lane != first.lane
    task = tasks.get_task(ROOT, second.id)
    assert task["capabilities"] == ["code", "gpu"]
    assert task["tools"] == ["crm"]
    assert (task["user"], task["cost"], task["payload"], task["pool"]) == ("ann", 2.5, {"n": 1}, "default")
    assert [event["event"] for event in task["history"]] == ["submitted"]
    assert tasks.get_task(ROOT, first.id)["user"] == "-"
