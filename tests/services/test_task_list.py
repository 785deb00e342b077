"""The filtered list: every filter, what is refused, pages that hold still while rows come and go."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dispatch.errors import Forbidden, Invalid
from dispatch.models import Task
from dispatch.services import tasks
from dispatch.store import tasks as store
from tests.services.world import ROOT, bury, key, lease, make_world, person, put, worker_session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def ids(filters: dict[str, Any], caller: Any = ROOT) -> list[int]:
    return [item["id"] for item in tasks.list_tasks(caller, filters).items]


def test_each_filter_finds_its_tasks() -> None:
    plain = put(type="mail", key="k1").id
    gpu = put(tenant="beta", work_class="background", user="ann", capabilities=("gpu",), tools=("crm",)).id
    other = put(work_class="elsewhere").id
    held = put().id
    lease(held, worker_session("w9"))
    dead = put().id
    bury(dead, error={"message": "Time 100% out"}, fingerprint="f00")
    old = put().id
    Task.objects.filter(pk=old).update(queued_at=timezone.now() - timedelta(minutes=5))
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [old, dead, held, other, gpu, plain]),
        ({"state": "leased"}, [held]),
        ({"state": "dead"}, [dead]),
        ({"state": "dead,leased"}, [dead, held]),
        ({"class": "background"}, [gpu]),
        ({"tenant": "beta"}, [gpu]),
        ({"pool": "other"}, [other]),
        ({"user": "ann"}, [gpu]),
        ({"user": "-", "type": "mail"}, [plain]),
        ({"worker": "w9"}, [held]),
        ({"worker": "nobody"}, []),
        ({"capability": "gpu"}, [gpu]),
        ({"tool": "crm"}, [gpu]),
        ({"error": "100% OUT"}, [dead]),
        ({"error": "100x"}, []),
        ({"fingerprint": "f00"}, [dead]),
        ({"min_age_s": 60}, [old]),
        ({"min_age_s": "60"}, [old]),
        ({"key": "k1"}, [plain]),
        ({"key": "k1", "tenant": "beta"}, []),
        ({"order": "id", "class": "critical"}, [plain, held, dead, old]),
        ({"order": "queued_at", "class": "critical"}, [old, plain]),
        ({"order": "-finished_at"}, [dead]),
        ({"state": None}, [old, dead, held, other, gpu, plain]),
    ]
    for filters, expected in cases:
        assert ids(filters) == expected, filters


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"statee": "dead"}, "statee"),
        ({"state": "running"}, "state"),
        ({"state": ""}, "state"),
        ({"state": 3}, "state"),
        ({"class": "nope"}, "class"),
        ({"tenant": "GAMMA "}, "tenant"),
        ({"tool": "nope"}, "tool"),
        ({"capability": "GPU"}, "capability"),
        ({"user": "A b"}, "user"),
        ({"min_age_s": "old"}, "min_age_s"),
        ({"min_age_s": "nan"}, "min_age_s"),
        ({"min_age_s": -1}, "min_age_s"),
        ({"key": "a\0b"}, "key"),
        ({"error": ""}, "error"),
        ({"order": "cost; drop table task"}, "order"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(filters: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        tasks.list_tasks(ROOT, filters)
    assert [error["field"] for error in refusal.value.errors] == [field]


@pytest.mark.parametrize("limit", [0, 1001, -1, True, "10", 2.0])
def test_a_limit_out_of_range_is_refused(limit: Any) -> None:
    with pytest.raises(Invalid):
        tasks.list_tasks(ROOT, {}, limit=limit)


@pytest.mark.parametrize("order", sorted(store.ORDERS))
def test_pages_hold_still_while_rows_come_and_go(order: str) -> None:
    made = [put(user=f"u{n % 3}").id for n in range(9)]
    now = timezone.now()
    if "finished" in order:
        for n, task_id in enumerate(made):
            bury(task_id, finished_at=now - timedelta(seconds=n // 3))  # ties
    else:
        for n, task_id in enumerate(made):
            Task.objects.filter(pk=task_id).update(queued_at=now - timedelta(seconds=n // 3))
    whole = ids({"order": order})
    assert len(whole) == 9
    seen: list[int] = []
    cursor = None
    for turn in range(10):
        page = tasks.list_tasks(ROOT, {"order": order}, limit=2, cursor=cursor)
        seen += [item["id"] for item in page.items]
        if turn == 1:
            Task.objects.filter(pk__in=[seen[-1], whole[-1]]).delete()  # the row of the cursor, and one to come
            late = put().id
        cursor = page.next_cursor
        if cursor is None:
            break
    expected = [task_id for task_id in whole if task_id != whole[-1]]
    assert [task_id for task_id in seen if task_id != late] == expected
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "a.b.c", "\0", "é"])
def test_a_bad_cursor_is_refused(cursor: str) -> None:
    put()
    if cursor == "":
        assert tasks.list_tasks(ROOT, {}, cursor=cursor).items
        return
    with pytest.raises(Invalid):
        tasks.list_tasks(ROOT, {}, cursor=cursor)


def test_a_cursor_of_another_order_is_refused() -> None:
    put(), put()
    cursor = tasks.list_tasks(ROOT, {}, limit=1).next_cursor
    with pytest.raises(Invalid):
        tasks.list_tasks(ROOT, {"order": "id"}, cursor=cursor)


def test_a_stranger_sees_nothing_of_other_tenants() -> None:
    mine, theirs = put().id, put(tenant="beta").id
    for caller in (key("read", tenant="alpha"), person(alpha="viewer")):
        assert ids({}, caller) == [mine]
        assert ids({"tenant": "alpha"}, caller) == [mine]
        with pytest.raises(Invalid) as hidden:
            ids({"tenant": "beta"}, caller)
        with pytest.raises(Invalid) as missing:
            ids({"tenant": "gamma"}, caller)
        assert hidden.value.errors == missing.value.errors
    with pytest.raises(Forbidden):
        ids({}, person())
    assert ids({}, key("read", pool="other")) == []
    assert set(ids({}, person("auditor"))) == {mine, theirs}
