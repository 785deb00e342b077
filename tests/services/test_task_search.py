"""The search of people: every filter, in windows, both ways, and never past what the caller may see."""

from typing import Any

import pytest

from dispatch.errors import Invalid
from dispatch.services import bulk, saved_views, task_search
from tests import fleet
from tests.services.world import ROOT, bury, key, make_world, person, put

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def ids(found: task_search.Found) -> list[int]:
    return [item["id"] for item in found.items]


def look(**filters: Any) -> list[int]:
    return ids(task_search.search(ROOT, {name.replace("__", "."): value for name, value in filters.items()}))


def test_words_of_the_search_line() -> None:
    cheap = put(cost=1.0, payload={"repo": "x", "job": {"n": 5}}).id
    dear = put(cost=3.0, payload={"repo": "y", "job": {"n": 6}}, tenant="beta").id
    plain = put(payload=[1]).id
    assert look(min_cost="2") == [dear]
    assert look(args__repo="x") == [cheap] and look(args__job__n="6") == [dear]
    assert look(**{"args.repo": "x", "args.job.n": "6"}) == []
    assert look(id=f"{cheap},{plain}") == [plain, cheap]
    bury(cheap, fingerprint="f00d", error={"message": "timeout"})
    bury(plain, fingerprint="", error=None)
    assert look(fingerprint="f00d,none", state="dead") == [plain, cheap]
    for bad in ({"min_cost": "x"}, {"args.": "x"}, {"id": "1,x"}, {"id": ""}, {"colour": "red"}):
        with pytest.raises(Invalid):
            task_search.search(ROOT, bad)


def test_pages_go_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fleet.put(7)[::-1]
    first = task_search.search(ROOT, {}, 3)
    second = task_search.search(ROOT, {}, 3, first.older)
    third = task_search.search(ROOT, {}, 3, second.older)
    assert (ids(first), ids(second), ids(third)) == (made[:3], made[3:6], made[6:])
    assert (first.newer, third.older) == (None, None)
    back = task_search.search(ROOT, {}, 3, third.newer, up=True)
    assert ids(back) == ids(second)
    again = task_search.search(ROOT, {}, 3, back.newer, up=True)
    assert ids(again) == ids(first) and again.newer is None
    assert ids(task_search.search(ROOT, {}, 3, again.older)) == ids(second)
    assert task_search.count(ROOT, {}) == (7, True)


def test_a_rare_match_is_found_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_search, "WINDOW", 2)
    monkeypatch.setattr(task_search, "COUNT_WINDOW", 2)
    rare = put(type="rare").id
    made = fleet.put(6)
    assert look(type="rare") == [rare]
    assert task_search.count(ROOT, {"type": "rare"}) == (0, False), "only the newest two are counted"
    monkeypatch.setattr(task_search, "SPENT_S", -1.0)
    found = task_search.search(ROOT, {"type": "rare"})
    assert (ids(found), found.looked_to) == ([], made[-2])
    seen = []
    while found.older:
        found = task_search.search(ROOT, {"type": "rare"}, cursor=found.older)
        seen += ids(found)
    assert seen == [rare]
    assert [row["id"] for row in task_search.rows(ROOT, {"type": "rare"})] == [rare]


def test_a_filter_on_payloads_is_for_those_who_see_them() -> None:
    mine, foreign = put(payload={"pin": "1"}).id, put(payload={"pin": "1"}, tenant="beta").id
    assert look(args__pin="1") == [foreign, mine]
    blind, seeing = person(alpha="admin"), person(view=True, alpha="admin")
    for caller in (blind, person(beta="viewer")):
        with pytest.raises(Invalid) as refused:
            task_search.search(caller, {"args.pin": "1"})
        assert refused.value.errors[0]["message"] == "payloads are not shown to your role"
        with pytest.raises(Invalid):
            task_search.search(caller, {"args.pin": "1", "tenant": "alpha"})
    with pytest.raises(Invalid):
        bulk.create(blind, "cancel", {"args.pin": "1"}, "guess", dry_run=True)
    assert ids(task_search.search(seeing, {"args.pin": "1"})) == [mine]
    with pytest.raises(Invalid):
        task_search.search(seeing, {"args.pin": "1", "tenant": "beta"})
    assert ids(task_search.search(key("read", tenant="alpha"), {"args.pin": "1"})) == [mine]


def test_views_are_kept_for_their_audience() -> None:
    olga, dan, bea = person("operator"), person(alpha="member"), person(beta="viewer")
    saved_views.save_view(olga, "stuck", "state:queued age>1h", "everyone")
    saved_views.save_view(dan, "ours", "tenant:alpha", "tenant", "alpha")
    saved_views.save_view(dan, "mine", "type:x", "private")
    saved_views.save_view(dan, "mine", "type:y", "private")
    names = {who.name: [view["name"] for view in saved_views.list_views(who)] for who in (olga, dan, bea)}
    assert names == {olga.name: ["stuck", "ours"], dan.name: ["mine", "ours", "stuck"], bea.name: ["stuck"]}
    assert saved_views.list_views(dan)[0]["query"] == "type:y"
    assert saved_views.list_views(key("read")) == []
    for caller, audience, tenant in ((dan, "everyone", ""), (bea, "tenant", "beta"), (dan, "tenant", "beta")):
        with pytest.raises(Exception, match=r"scope|invalid|tenant|wrong") as refused:
            saved_views.save_view(caller, "x", "type:x", audience, tenant)
        assert type(refused.value).__name__ in ("Forbidden", "Invalid")
    mine = saved_views.list_views(dan)[0]["id"]
    for caller in (bea, olga):
        with pytest.raises(Exception, match="no such view"):
            saved_views.delete_view(caller, mine)
    assert saved_views.delete_view(olga, saved_views.list_views(olga)[1]["id"]) == "ours"
    assert saved_views.delete_view(dan, mine) == "mine"
