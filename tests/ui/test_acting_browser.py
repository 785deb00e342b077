"""The acting pages in a real Chromium on the real product: requeue by keyboard alone, all matching, hostile texts, big
ones, a task that nobody can run, and axe on each page in light and dark, wide and narrow."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.acceptance.harness import Product, running
from tests.ui.browsing import NARROW, WIDE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.timeout(240)]
EVIL = '<img src=x onerror="window.owned=1"> </script><b> {{7*7}} javascript:alert(1) \'"'
DOOMS = itertools.count()
LONG = "é€" * 12_000 + " end of it"


@pytest.fixture(scope="module")
def product(browser_type_launch_args: dict[str, Any]) -> Iterator[Product]:
    """Sixty of alpha died of a timeout, forty of beta of a bad key, a few of hostile and of endless texts."""
    with running() as found:
        found.ok("POST", "/api/v1/classes", {"slug": "batch", "slo_queue_s": 600, "max_attempts": 1})
        for slug in ("alpha", "beta"):
            found.ok("POST", "/api/v1/tenants", {"slug": slug})
        die(found, 60, "alpha", "timeout after 30 s", "Timeout")
        die(found, 40, "beta", "auth: key was refused", "Auth", capability="auth")
        die(found, 2, "alpha", EVIL, EVIL, payload={"x": EVIL})
        die(found, 1, "alpha", LONG, "Endless", payload={"text": "ü" * 300_000})
        yield found


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page


def die(
    product: Product, count: int, tenant: str, message: str, kind: str, payload: Any = None, capability: str = ""
) -> list[int]:
    """Have so many tasks fail for good, all at once; their ids. Nobody else's agent can run them later."""
    needs = [capability or f"doom-{next(DOOMS)}"]
    task = {
        "tenant": tenant,
        "class": "batch",
        "type": "index",
        "payload": payload or {"n": 1},
        "capabilities": needs,
    }
    made = [one["id"] for one in product.ok("POST", "/api/v1/tasks", {"tasks": [task] * count})["tasks"]]
    worker = {"name": "doomed", "capabilities": needs, "slots": 200, "version": "4.2.0"}
    session = product.ok("POST", "/api/v1/workers", worker)["session_id"]
    left = count
    while left:
        claim = {"session_id": session, "max": 200, "wait_s": 10}
        leases = product.ok("POST", "/api/v1/claims", claim)["leases"]
        error = {"message": message, "type": kind[:60], "kind": "permanent"}
        ends = [{"task_id": one["task_id"], "token": one["token"], "outcome": "fail", "error": error} for one in leases]
        product.ok("POST", "/api/v1/completions", {"outcomes": ends})
        left -= len(leases)
    product.ok("DELETE", f"/api/v1/sessions/{session}")
    return made


def tab_to(page: Page, name: str) -> None:
    """Walk by the tabulator to the field or button of a name."""
    for _ in range(80):
        if page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()") == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{name} is not reached by the tabulator")


def group(page: Page, title: str) -> Any:
    return page.locator("tr[data-id]", has_text=title)


def test_a_group_is_requeued_by_keyboard_alone(product: Product, page: Page) -> None:
    page.goto("/dead")
    expect(group(page, "Auth")).to_contain_text("40")
    page.keyboard.press("j")
    while "Auth" not in page.evaluate("document.activeElement.closest('tr').textContent"):
        page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("1 selected, 40 tasks")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Requeue 40 tasks", level=1)).to_be_visible()
    expect(page.get_by_text("40 will be requeued")).to_be_visible()
    for name, value in (("rate_per_s", "400"), ("canary", "5"), ("stop_above", "50"), ("reason", "new key")):
        tab_to(page, name)
        page.keyboard.press("Control+a")
        page.keyboard.type(value)
    expect(page.locator("#plan")).to_contain_text("canary of 5 first")
    tab_to(page, "Requeue 40 tasks")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="5 of 40 requeued, canary runs")).to_be_visible()
    work(product, 5)
    expect(page.get_by_role("heading", name="25 of 40 requeued, running")).to_be_visible(timeout=15_000)
    expect(page.locator(".tiles", has_text="Ended well")).to_contain_text("20")
    work(product, 35)
    expect(page.get_by_role("heading", name="40 of 40 requeued, done")).to_be_visible(timeout=15_000)
    page.reload()
    page.go_back()
    page.go_forward()
    assert len([one for one in product.ok("GET", "/api/v1/bulk")["items"] if one["matched"] == 40]) == 1


def work(product: Product, count: int) -> None:
    """Let a healthy agent finish so many tasks."""
    worker = {"name": "healthy", "capabilities": ["auth"], "slots": 50, "version": "4.2.1"}
    session = product.ok("POST", "/api/v1/workers", worker)["session_id"]
    left = count
    while left:
        claim = {"session_id": session, "max": left, "wait_s": 10}
        leases = product.ok("POST", "/api/v1/claims", claim)["leases"]
        ends = [{"task_id": one["task_id"], "token": one["token"], "outcome": "complete"} for one in leases]
        product.ok("POST", "/api/v1/completions", {"outcomes": ends})
        left -= len(leases)
    product.ok("DELETE", f"/api/v1/sessions/{session}")


def test_all_matching_means_what_was_shown(product: Product, page: Page) -> None:
    page.goto("/tasks?q=state%3Adead+tenant%3Aalpha+error%3Atimeout")
    expect(page.locator("main footer")).to_contain_text("60 match")
    page.get_by_label("Tick all tasks of this page").check()
    page.get_by_label("all that match this search").check()
    page.get_by_role("button", name="Requeue…").click()
    expect(page.get_by_role("heading", name="Requeue 60 tasks", level=1)).to_be_visible()
    found = [one["id"] for one in product.ok("GET", "/api/v1/tasks?state=dead&tenant=alpha&error=timeout")["items"]]
    die(product, 5, "alpha", "timeout after 31 s", "Timeout")
    for number in found[:3]:
        product.ok("POST", f"/api/v1/tasks/{number}/requeue", {})
    page.reload()
    expect(page.get_by_text("57 will be requeued")).to_be_visible()
    expect(page.get_by_text("3 not dead any more").first).to_be_visible()
    expect(page.get_by_text("5 matching now, not frozen")).to_be_visible()
    page.get_by_label("Rate").fill("")
    page.get_by_label("In flight at most").fill("")
    page.get_by_label("Canary first").fill("")
    page.get_by_label("Stop above").fill("")
    page.get_by_label("Reason, kept in the audit").fill("longer timeout")
    page.get_by_role("button", name="Requeue 57 tasks").dblclick()
    expect(page.get_by_role("heading", name="57 of 60 requeued, done")).to_be_visible(timeout=15_000)
    [job] = [one for one in product.ok("GET", "/api/v1/bulk")["items"] if one["matched"] == 60]
    job = product.ok("GET", f"/api/v1/bulk/{job['id']}")
    assert (job["done"], len(job["skipped"]), job["new"]) == (57, 3, 5)
    left = product.ok("GET", "/api/v1/tasks?state=dead&limit=1000")["items"]
    assert sum("timeout" in one["error"]["message"] for one in left) == 5


def test_hostile_and_endless_texts_stay_texts(product: Product, page: Page) -> None:
    page.goto("/dead")
    row = group(page, "<img src=x")
    expect(row).to_contain_text("onerror")
    fingerprint = row.get_attribute("data-id")
    endless = product.ok("GET", "/api/v1/dead-letters?error=end+of+it")["items"][0]["id"]
    hostile = product.ok("GET", f"/api/v1/dead-letters?fingerprint={fingerprint}")["items"][0]["id"]
    for path in (f"/dead/{fingerprint}", f"/tasks/{hostile}", "/tasks?q=state%3Adead", f"/tasks/{endless}"):
        page.goto(path)
        page.wait_for_timeout(100)
        assert page.locator("main img, main b >> text=javascript").count() == 0, path
        assert page.evaluate("window.owned") is None
    expect(page.get_by_role("region", name="Error").locator("pre")).to_contain_text("end of it")
    page.goto("/dead")
    before = group(page, "<img src=x").locator(".count").inner_text()
    die(product, 1, "alpha", EVIL, EVIL)
    expect(group(page, "<img src=x").locator(".count")).to_have_text(str(int(before) + 1))  # pushed, and still a text
    assert page.evaluate("window.owned") is None


def test_a_task_that_nobody_can_run_says_so_and_starts_when_somebody_can(product: Product, page: Page) -> None:
    task = {"tenant": "alpha", "class": "batch", "payload": 1, "capabilities": ["quantum"]}
    number = product.ok("POST", "/api/v1/tasks", task)["id"]
    page.goto(f"/tasks/{number}")
    expect(page.get_by_role("region", name="Why not running")).to_contain_text("quantum")
    expect(page.locator("code.tag", has_text="no_capable_worker")).to_be_visible()
    worker = {"name": "q-1", "capabilities": ["quantum"], "slots": 1}
    session = product.ok("POST", "/api/v1/workers", worker)["session_id"]
    claim = {"session_id": session, "max": 1, "wait_s": 10}
    [lease] = product.ok("POST", "/api/v1/claims", claim)["leases"]
    expect(page.get_by_role("region", name="State of the task")).to_contain_text("Running on q-1")
    expect(page.locator(".lease")).to_contain_text("expires in 0:")
    progress = {"fraction": 0.4, "note": "page <b>4</b>"}
    beat = {"task_id": lease["task_id"], "token": lease["token"], "progress": progress}
    product.ok("POST", "/api/v1/heartbeats", {"session_id": session, "leases": [beat]})
    expect(page.locator("#task-head")).to_contain_text("40 %")
    expect(page.locator("#task-head")).to_contain_text("page <b>4</b>")
    product.ok("POST", f"/api/v1/tasks/{number}/complete", {"token": lease["token"], "result": {"ok": 1}})
    expect(page.get_by_role("region", name="State of the task")).to_contain_text("Done")
    expect(page.get_by_role("region", name="Result")).to_contain_text('"ok": 1')


def test_ticks_stay_when_rows_come_and_go(product: Product, page: Page) -> None:
    die(product, 1, "beta", "lonely", "Lonely")
    page.goto("/dead")
    group(page, "Lonely").get_by_role("checkbox").check()
    group(page, "Timeout").get_by_role("checkbox").check()
    expect(page.locator("[data-picked]")).to_contain_text("2 selected")
    [gone] = product.ok("GET", "/api/v1/dead-letters?error=lonely")["items"]
    product.ok("POST", f"/api/v1/tasks/{gone['id']}/requeue", {})
    expect(group(page, "Lonely")).to_have_attribute("data-gone", "")
    expect(page.locator("[data-picked]")).to_contain_text("1 selected, 5 tasks · 1 gone meanwhile")
    expect(group(page, "Timeout").get_by_role("checkbox")).to_be_checked()

    page.goto("/tasks?q=state%3Adead+tenant%3Aalpha")
    ids = [str(page.locator("tr[data-id]").nth(place).get_attribute("data-id")) for place in range(3)]
    for number in ids:
        page.get_by_label(f"Tick task {number}").check()
    product.ok("POST", f"/api/v1/tasks/{ids[1]}/requeue", {})
    expect(page.locator(f'tr[data-id="{ids[1]}"]')).to_have_attribute("data-gone", "", timeout=9000)
    expect(page.locator("[data-picked]")).to_have_text("2 selected · 1 gone meanwhile")
    expect(page.get_by_label(f"Tick task {ids[0]}")).to_be_checked()


#: width, scheme, rules: what differs between two themes at one width is the contrast only
LOOKS: list[tuple[Any, Any, dict[str, Any]]] = [
    (WIDE, "light", {}),
    (WIDE, "dark", {"runOnly": ["color-contrast"]}),
    (NARROW, "dark", {}),
    (NARROW, "light", {"runOnly": ["color-contrast"]}),
]


def test_the_acting_pages_are_accessible(product: Product, page: Page) -> None:
    jobs = [one["id"] for one in product.ok("GET", "/api/v1/bulk")["items"]]
    dead = product.ok("GET", "/api/v1/dead-letters")["items"]
    filters = {"tenant": "alpha", "state": "dead"}
    dry = product.ok("POST", "/api/v1/bulk", {"action": "requeue", "filter": filters, "dry_run": True, "reason": "x"})
    paths = ["/dead", "/dead?view=ages&show=all", f"/dead/{dead[0]['fingerprint']}", "/bulk", f"/bulk/{dry['id']}"]
    paths += [f"/bulk/{jobs[-1]}"] if jobs else []
    paths += ["/tasks?q=state%3Adead", "/tasks?q=shoe%3A9", f"/tasks/{dead[0]['id']}"]
    paths += ["/alerts", "/alerts/rules?rule=queue_slo"]
    found = []
    for path in paths:
        assert (page.goto(path) or Any).status == 200, path
        if path == "/dead":
            page.locator("tbody input").first.check()
        for size, scheme, options in LOOKS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for violation in Axe().run(page, options=options).response["violations"]:
                places = [" ".join(map(str, node["target"])) for node in violation["nodes"][:4]]
                found.append(f"{path} {scheme} {size['width']} {violation['id']}: {places}")
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{path} is {wider} px too wide"
    assert found == [], "\n".join(found)
