"""The frame around every page: the tenant and pool looked at, the palette, times in another zone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dispatch.services import policy
from dispatch.services.messages import Caller

Browse = Callable[..., Client]


def entries(client: Client, typed: str, **view: str) -> dict[str, dict[str, Any]]:
    answer = client.get("/palette", {"q": typed, **view})
    assert answer.status_code == 200
    return {entry["text"]: entry for entry in answer.json()["entries"]}


def test_an_operator_narrows_every_page_to_one_tenant(task: Callable[..., int], browse: Browse) -> None:
    task(tenant="sales"), task(tenant="sales"), task(tenant="legal")
    client = browse()
    assert client.get("/").context["cells"]["t.queued"] == "3"
    page = client.get("/?tenant=legal")
    assert page.context["cells"]["t.queued"] == "1"
    assert 'href="/queues?tenant=legal"' in page.content.decode(), "the choice goes along"
    assert 'data-tenant="legal"' in page.content.decode(), "and so do the live numbers"
    assert client.get("/live/overview.json?tenant=legal").json()["changes"]["t.queued"] == "1"
    assert client.get("/system?tenant=legal").status_code == 200, "the fleet stays everybody's"
    assert client.get("/?tenant=nobody").status_code == 404


def test_the_pool_is_chosen_in_the_address(task: Callable[..., int], system: Caller, browse: Browse) -> None:
    task()
    policy.create(system, "pool", "night", {})
    client = browse()
    assert client.get("/").context["cells"]["t.queued"] == "1"
    page = client.get("/?pool=night")
    assert (page.context["cells"]["t.queued"], page.context["cells"]["pool"]) == ("0", "pool night")
    assert '<option value="night" selected>' in page.content.decode()
    assert client.get("/?pool=none").status_code == 404


def test_a_member_cannot_look_at_another_tenant(task: Callable[..., int], browse: Browse) -> None:
    task(tenant="sales")
    member = browse("", tenant="legal")
    assert member.get("/?tenant=sales").status_code == 404
    assert member.get("/live/overview.json?tenant=sales").status_code == 404
    assert member.get("/?tenant=legal").context["cells"]["t.queued"] == "0"


def test_the_palette_finds_what_this_person_may_know(task: Callable[..., int], browse: Browse) -> None:
    number = task()
    operator = browse()
    assert entries(operator, "")["Overview"]["href"] == "/"
    assert entries(operator, "qu")["Queues"]["note"] == "page"
    assert entries(operator, str(number))[f"Task {number:,}"]["href"] == f"/tasks/{number}"
    assert entries(operator, "interact")["Edit weights of interactive"]["href"] == "/fairness/class/interactive#editor"
    assert entries(operator, "sales")["sales"]["href"] == "/?tenant=sales"
    assert entries(operator, "a&b")["Search tasks for a&b"]["href"] == "/tasks?q=a%26b"
    member = browse("", tenant="legal")
    assert "sales" not in entries(member, "sales") and "legal" in entries(member, "legal")
    assert not [text for text in entries(member, "interact") if text.startswith(("Edit", "Pause"))]
    assert Client().get("/palette").status_code == 302


@pytest.mark.parametrize("path", ["/", "/audit", "/system", "/capabilities"])
def test_times_say_what_they_are(path: str, pool: None, browse: Browse) -> None:
    text = browse().get(path).content.decode()
    assert 'data-t="stamp"' in text or 'data-t="moment"' in text


def test_the_audit_is_narrowed_and_downloaded(pool: None, system: Caller, browse: Browse) -> None:
    policy.patch(system, "class", "interactive", 1, {"weight": 4}, "=cmd()")
    policy.create(system, "tenant", "other", {})
    client = browse()
    text = client.get("/audit?action=patch_class").content.decode()
    assert "=cmd()" in text and "class interactive" in text and "tenant other" not in text
    assert "No entry fits" in client.get("/audit?target=nothing").content.decode()
    sheet = b"".join(client.get("/audit.csv?action=patch_class").streaming_content).decode()  # type: ignore[attr-defined]
    lines = sheet.splitlines()
    assert len(lines) == 2 and lines[0].startswith("id,at,actor_kind") and "'=cmd()" in lines[1]
    assert browse("").get("/audit.csv").status_code == 403


def test_an_edit_is_undone_unless_it_was_overtaken(pool: None, system: Caller, browse: Browse) -> None:
    client = browse()
    version = policy.patch(system, "class", "interactive", 1, {"weight": 4, "min": 2}, "busy")["version"]
    text = client.get("/fairness/class/interactive").content.decode()
    [entry] = [part.split('"')[0] for part in text.split('name="entry" value="')[1:]]
    policy.patch(system, "class", "interactive", version, {"min": 3}, "more")
    client.post("/fairness/class/interactive/undo", {"entry": entry})
    assert policy.get(system, "class", "interactive")["weight"] == 4, "min was set again since"
    text = client.get("/fairness/class/interactive").content.decode()
    [entry] = [part.split('"')[0] for part in text.split('name="entry" value="')[1:]]
    client.post("/fairness/class/interactive/undo", {"entry": entry})
    now = policy.get(system, "class", "interactive")
    assert (now["weight"], now["min"]) == (4, 2)
    assert "undo of: min 2 → 3" in client.get("/audit").content.decode()


def test_queues_are_grouped_as_asked(task: Callable[..., int], browse: Browse) -> None:
    task(tenant="sales", user="ann", tools=[])
    task(tenant="sales", user="bob"), task(tenant="legal", user="cid")
    client = browse()
    rows = {by: client.get(f"/live/queues:{by}.json").json()["changes"] for by in ("queue", "class", "tenant", "user")}
    assert rows["queue"]["queues"] == ["interactive/sales", "interactive/legal"]
    assert rows["class"]["q.interactive.queued"] == "3"
    assert rows["tenant"]["q.sales.queued"] == "2"
    assert {rows["user"][f"q.{place}.name"] for place in rows["user"]["queues"]} == {
        "sales · ann",
        "sales · bob",
        "legal · cid",
    }
    assert client.get("/live/queues:queue.trouble.json").json()["changes"]["queues"] == []
    assert client.get("/live/queues:moon.json").status_code == 422
    for address in ("/queues?by=user&view=table", "/queues?by=tool&only=trouble", "/queues?by=tenant", "/queues?by=x"):
        assert client.get(address).status_code == 200


ADDRESSES = [
    *("/?pool={}", "/?tenant={}", "/?span={}", "/queues/{}", "/queues/interactive/{}", "/queues?by={}"),
    *("/workers?only={}", "/palette?q={}", "/series.json?span={}", "/series.json?tenant={}"),
    *("/series.json?class={}&pool={}", "/live/queue:{}.json", "/live/queues:{}.json", "/live/worker:{}.json"),
    *("/live/{}.json", "/audit?actor={}&target={}", "/audit?after={}", "/audit.csv?action={}", "/fairness/class/{}"),
]


def test_bad_addresses_are_refused_in_words(pool: None, browse: Browse) -> None:
    client = browse()
    for bad in ("%00", "%F0%9F%92%A5", "a%2Fb%2Fc", "x" * 300):
        for address in ADDRESSES:
            status = client.get(address.replace("{}", bad)).status_code
            assert status in (200, 302, 400, 404, 422), (address, bad, status)
