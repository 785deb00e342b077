"""Submit: what is taken, what is refused and where the refusal points."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dispatch.errors import EvenflowError, Forbidden, Invalid, KeyReused, RateLimited, TooLarge
from dispatch.models import Capability, Lane, LaneDelta, Task, TenantUser
from dispatch.services import policy, tasks
from dispatch.services.cancel import cancel
from dispatch.services.messages import Caller
from dispatch.services.submit import submit
from tests.services.world import ROOT, key, make_world, person, put, spec

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def limit(**fields: Any) -> None:
    policy.patch(ROOT, "tenant", "alpha", policy.get(ROOT, "tenant", "alpha")["version"], fields, "test")


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


def test_a_large_batch_keeps_its_order_whatever_its_keys() -> None:
    batch = [
        spec(key=None if n % 3 else f"k{900 - n}", capabilities=(f"c{n % 7}",), user=f"u{n % 5}") for n in range(300)
    ]
    answers = submit(ROOT, batch)
    ids = [answer.id for answer in answers]
    assert ids == sorted(ids)
    assert Task.objects.count() == 300
    assert len({answer.lane for answer in answers}) == Lane.objects.count() == 35
    assert sum(delta.queued for delta in LaneDelta.objects.all()) == 300
    again = submit(ROOT, batch)
    assert [answer.id for answer in again][::3] == ids[::3]
    assert Task.objects.count() == 500


def test_order_of_capabilities_and_doubles_make_no_other_lane() -> None:
    lanes = {put(capabilities=caps).lane for caps in (("a", "b"), ("b", "a"), ("a", "b", "a"))}
    assert len(lanes) == 1
    assert set(Capability.objects.values_list("slug", flat=True)) == {"a", "b"}


def test_users_come_into_being_once_and_minus_is_one_of_them() -> None:
    put(user="ann"), put(user="ann"), put(), put(user="-")
    assert sorted(TenantUser.objects.values_list("name", flat=True)) == ["-", "ann"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tenant": "gamma"}, "tenant"),
        ({"tenant": "ALPHA"}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"work_class": "urgent"}, "class"),
        ({"pool": "nowhere"}, "pool"),
        ({"pool": "other"}, "class"),
        ({"pool": "default", "work_class": "elsewhere"}, "class"),
        ({"tools": ("erp",)}, "tools"),
        ({"tools": tuple(f"t{n}" for n in range(9))}, "tools"),
        ({"tools": (" crm ",)}, "tools[0]"),
        ({"capabilities": ("code", "GPU")}, "capabilities[1]"),
        ({"capabilities": (" gpu ",)}, "capabilities[0]"),
        ({"capabilities": tuple(f"c{n}" for n in range(17))}, "capabilities"),
        ({"user": "Ann"}, "user"),
        ({"type": "a b"}, "type"),
        ({"cost": -1}, "cost"),
        ({"cost": float("nan")}, "cost"),
        ({"cost": float("inf")}, "cost"),
        ({"cost": 1e30}, "cost"),
        ({"cost": True}, "cost"),
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"key": ""}, "key"),
        ({"key": "k" * 201}, "key"),
        ({"key": "a\0"}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 101}, "max_attempts"),
        ({"max_runtime_s": 0}, "max_runtime_s"),
        ({"max_runtime_s": 1e300}, "max_runtime_s"),
        ({"progress_timeout_s": -3}, "progress_timeout_s"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),
        ({"deadline": "tomorrow"}, "deadline"),
        ({"payload": {"a": ["x\0"]}}, "payload"),
        ({"payload": {"a\0": 1}}, "payload"),
        ({"payload": "\ud800"}, "payload"),
        ({"payload": float("nan")}, "payload"),
        ({"payload": {1, 2}}, "payload"),
    ],
)
def test_what_cannot_be_used_is_refused_at_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as alone:
        submit(ROOT, [spec(**fields)], batch=False)
    assert [error["field"] for error in alone.value.errors] == [field]
    with pytest.raises(Invalid) as batch:
        submit(ROOT, [spec(), spec(), spec(**fields)])
    assert batch.value.errors[0]["field"] == f"tasks[2].{field}"
    assert Task.objects.count() == 0
    assert Lane.objects.count() == 0


@pytest.mark.parametrize(
    "payload",
    [
        None,
        0,
        "",
        [],
        {},
        "\\u0000",
        {"\\": "\\\\u0000"},
        2**63 - 1,
        10**40,
        0.1,
        "ü\u2028</b>",
        {"a": {"b": [1]}},
    ],
)
def test_every_other_payload_is_kept_as_it_is(payload: Any) -> None:
    assert tasks.get_task(ROOT, put(payload=payload).id)["payload"] == payload


def test_a_payload_over_the_limit_is_too_large() -> None:
    put(payload="x" * (2**20 - 2))
    with pytest.raises(TooLarge):
        put(payload="x" * (2**20 - 1))


def test_the_pool_is_the_classs_own_unless_named() -> None:
    assert tasks.get_task(ROOT, put(work_class="elsewhere").id)["pool"] == "other"
    assert tasks.get_task(ROOT, put(work_class="elsewhere", pool="other").id)["pool"] == "other"


# Keys


def test_a_repeated_key_answers_the_first_task() -> None:
    first = put(key="k")
    again = put(key="k")
    assert (again.id, again.created, again.lane, again.state) == (first.id, False, first.lane, "queued")
    cancel(ROOT, first.id)
    assert put(key="k").state == "cancelled"
    assert put(tenant="beta", key="k").created  # unique per tenant
    assert Task.objects.count() == 2


@pytest.mark.parametrize(
    "fields", [{"payload": {"n": 2}}, {"work_class": "background"}, {"priority": 1}, {"user": "ann"}, {"cost": 1}]
)
def test_a_reused_key_is_refused(fields: dict[str, Any]) -> None:
    put(key="k")
    with pytest.raises(KeyReused):
        put(key="k", **fields)
    with pytest.raises(KeyReused, match=r"tasks\[1\]"):
        submit(ROOT, [spec(), spec(key="k", **fields)])
    assert Task.objects.count() == 1


def test_the_hash_of_what_was_sent_decides() -> None:
    first = put(key="k", content_hash=b"\1" * 32)
    assert put(key="k", content_hash=b"\1" * 32, priority=9).id == first.id
    with pytest.raises(KeyReused):
        put(key="k", content_hash=b"\2" * 32)


def test_doubles_inside_one_batch() -> None:
    one, two, three = submit(ROOT, [spec(key="k"), spec(key="k"), spec(key="l")])
    assert (one.id, one.created) == (two.id, True)
    assert not two.created
    assert three.id != one.id
    with pytest.raises(KeyReused):
        submit(ROOT, [spec(key="m"), spec(key="m", priority=1)])
    assert Task.objects.count() == 2


# Times


def test_a_task_of_the_future_is_scheduled_and_queues_behind_those_before_it() -> None:
    later = timezone.now() + timedelta(hours=1)
    task_id = put(run_at=later).id
    task = tasks.get_task(ROOT, task_id)
    assert (task["state"], task["queued_at"], task["queue_age_s"], task["enqueued_at"]) == (
        "scheduled",
        None,
        None,
        later,
    )
    past = tasks.get_task(ROOT, put(run_at=datetime(2020, 1, 1, tzinfo=UTC)).id)
    assert past["state"] == "queued"
    assert past["enqueued_at"] == past["queued_at"] == past["created_at"]


def test_a_deadline_that_has_passed_is_taken_and_dead() -> None:
    answer = put(deadline=datetime(2020, 1, 1, tzinfo=UTC), run_at=timezone.now() + timedelta(hours=1))
    task = tasks.get_task(ROOT, answer.id)
    assert (answer.state, task["reason"], task["finished_at"]) == ("dead", "expired", task["created_at"])
    assert put(deadline=timezone.now() + timedelta(hours=1)).state == "queued"


def test_what_is_paused_takes_tasks() -> None:
    for kind, slug in (("pool", "default"), ("class", "critical"), ("tenant", "alpha"), ("tool", "crm")):
        policy.patch(ROOT, kind, slug, 1, {"paused": True}, "test")
    assert put(tools=("crm",)).state == "queued"


# Limits


def test_max_queued_counts_waiting_tasks_of_all_pools() -> None:
    limit(max_queued=3)
    put(), put(work_class="elsewhere")
    with pytest.raises(RateLimited) as refusal:
        submit(ROOT, [spec(), spec()])
    assert refusal.value.retry_after_s
    last = put(key="k", run_at=timezone.now() + timedelta(hours=1))
    with pytest.raises(RateLimited):
        put()
    assert put(key="k", run_at=tasks.get_task(ROOT, last.id)["run_at"]).id == last.id  # a repeat is no new task
    put(tenant="beta")
    cancel(ROOT, last.id)
    put()
    limit(max_queued=0)
    with pytest.raises(RateLimited):
        put()


def test_submits_per_minute_slide() -> None:
    limit(submit_per_minute=3)
    first = put().id
    submit(ROOT, [spec(), spec()])
    with pytest.raises(RateLimited) as refusal:
        put()
    assert refusal.value.retry_after_s == pytest.approx(60, abs=2)
    Task.objects.filter(pk=first).update(created_at=timezone.now() - timedelta(seconds=61))
    put()
    with pytest.raises(RateLimited):
        put()
    with pytest.raises(RateLimited):
        submit(ROOT, [spec()] * 4)
    limit(submit_per_minute=0)
    with pytest.raises(RateLimited):
        put()


def test_lanes_with_queued_work_are_bounded(settings: Any) -> None:
    settings.EVENFLOW_LIMITS = replace(settings.EVENFLOW_LIMITS, lanes=3)
    made = [put(user=f"u{n}").id for n in range(3)]
    put(user="u0")
    with pytest.raises(RateLimited):
        put(user="u3")
    put(user="u3", tenant="beta")
    put(user="u3", work_class="elsewhere")
    cancel(ROOT, made[1])
    put(user="u3")
    with pytest.raises(RateLimited):
        put(user="u1")


# Rights


def test_who_may_submit_where() -> None:
    cases: list[tuple[str, Caller, type[EvenflowError] | None, type[EvenflowError] | None]] = [
        ("submit", key("submit"), None, None),
        ("bound to alpha", key("submit", tenant="alpha"), None, Invalid),
        ("bound to the pool other", key("submit", pool="other"), Invalid, Invalid),
        ("read", key("read"), Forbidden, Forbidden),
        ("operate", key("operate", "admin", "work"), Forbidden, Forbidden),
        ("operator", person("operator"), None, None),
        ("auditor", person("auditor"), Forbidden, Forbidden),
        ("member of alpha", person(alpha="member"), None, Invalid),
        ("viewer of alpha", person(alpha="viewer"), Forbidden, Forbidden),
        ("member of alpha, viewer of beta", person(alpha="member", beta="viewer"), None, Forbidden),
    ]
    for name, caller, mine, theirs in cases:
        for tenant, expected in (("alpha", mine), ("beta", theirs)):
            if expected is None:
                assert submit(caller, [spec(tenant=tenant)])[0].created, name
                continue
            with pytest.raises(expected):
                submit(caller, [spec(tenant=tenant)])


def test_another_tenants_name_answers_like_an_unknown_one() -> None:
    bound = key("submit", tenant="alpha")
    answers = []
    for tenant in ("beta", "gamma"):
        with pytest.raises(Invalid) as refusal:
            submit(bound, [spec(tenant=tenant)])
        answers.append(refusal.value.errors)
    assert answers[0] == answers[1]
    with pytest.raises(Invalid) as refusal:
        submit(key("submit", pool="other"), [spec(pool="default")], batch=False)
    assert refusal.value.errors == [{"field": "pool", "message": "there is no such pool"}]


def test_payloads_are_for_those_who_may_see_them() -> None:
    task_id = put(payload={"secret": 1}).id
    for caller in (key("read"), person("operator"), person("auditor"), person(alpha="viewer", view=True)):
        assert tasks.get_task(caller, task_id)["payload"] == {"secret": 1}
    hidden = tasks.get_task(person(alpha="admin"), task_id)
    assert (hidden["payload"], hidden["result"], hidden["payload_hidden"]) == (None, None, True)
