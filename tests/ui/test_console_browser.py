"""The operators' pages in a real Chromium on the real product: by keyboard, two at once, cut off, an agent killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.harness import ROOT, Product, running
from tests.ui.browsing import Visit

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.timeout(240)]

AGENT = """
import sys, time
from dispatch.agent import Client
for job in Client(sys.argv[1], sys.argv[2], name="doomed", capabilities=["doom"]).jobs():
    with job:
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def product(browser_type_launch_args: dict[str, Any]) -> Iterator[Product]:
    """A running product with two departments of equal weight and short leases."""
    with running() as found:
        found.patch("pools", "default", lease_ttl_s=6, heartbeat_every_s=2)
        found.ok("POST", "/api/v1/classes", {"slug": "batch", "slo_queue_s": 600})
        for slug in ("alpha", "beta"):
            found.ok("POST", "/api/v1/tenants", {"slug": slug})
        yield found


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page


def submit(product: Product, count: int = 1, **fields: Any) -> list[int]:
    task = {"tenant": "alpha", "class": "batch", "payload": {"n": 1}, "type": "index", "capabilities": ["none-has-it"]}
    answer = product.ok("POST", "/api/v1/tasks", {"tasks": [task | fields] * count})
    return [int(one["id"]) for one in answer["tasks"]]


def join(product: Product, name: str, slots: int, *capabilities: str) -> int:
    worker = {"name": name, "slots": slots, "capabilities": list(capabilities)}
    return int(product.ok("POST", "/api/v1/workers", worker)["session_id"])


def live(page: Page) -> None:
    expect(page.locator("#pill b")).to_have_text("Live")


def palette(page: Page, words: str, pick: str) -> None:
    """Open the palette, type, and take the entry by keyboard alone."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    chosen = page.locator('#palette [role="option"][aria-selected="true"]')
    options = page.locator('#palette [role="option"]')
    expect(options.filter(has_text=pick).first).to_be_visible()
    for _ in range(12):
        if pick in chosen.inner_text():
            break
        page.keyboard.press("ArrowDown")
    active = page.locator("#palette input").get_attribute("aria-activedescendant")
    assert pick in page.locator(f"#{active}").inner_text()
    page.keyboard.press("Enter")


def test_weights_are_edited_by_keyboard_alone(product: Product, page: Page) -> None:
    page.goto("/")
    live(page)
    palette(page, "weights of beta", "Edit weights of beta")
    expect(page.get_by_role("heading", name="Tenant beta")).to_be_visible()
    page.keyboard.press("e")
    assert page.evaluate("document.activeElement.name") == "weight"
    page.keyboard.press("Control+a")
    page.keyboard.type("-2")
    expect(page.locator("#err-weight")).to_contain_text("0")
    page.keyboard.press("Control+a")
    page.keyboard.type("1.5")
    expect(page.locator("#verdict")).to_contain_text("All values valid")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "reason":
            break
    page.keyboard.type("month end")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Tenant beta saved: weight")
    assert product.ok("GET", "/api/v1/tenants/beta")["weight"] == 1.5
    page.get_by_role("button", name="Undo: weight 1 → 1.5").press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Undone: weight 1 → 1.5")
    assert product.ok("GET", "/api/v1/tenants/beta")["weight"] == 1


def test_a_worker_is_drained_by_keyboard_alone(product: Product, page: Page) -> None:
    session = join(product, "tired-1", 2, "tired")
    page.goto("/workers")
    live(page)
    palette(page, "drain tired", "Drain tired-1")
    expect(page.get_by_role("heading", name="tired-1")).to_be_visible()
    page.locator("#reason-drain").focus()
    page.keyboard.type("host is rebooted")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Worker tired-1 drains")
    expect(page.locator('[data-k="o.state"]')).to_have_text("draining")
    product.ok("DELETE", f"/api/v1/sessions/{session}")


def test_why_is_answered_by_keyboard_alone(product: Product, page: Page) -> None:
    [task] = submit(product)
    page.goto("/queues")
    live(page)
    palette(page, str(task), f"Task {task}")
    expect(page.get_by_role("heading", name=f"Task {task}")).to_be_visible()
    expect(page.locator("main")).to_contain_text("No live worker offers none-has-it")
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Fairness", level=1)).to_be_visible()
    product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})


def test_two_operators_edit_the_same_weight(product: Product, browser: Browser, signed_in: Any, page: Page) -> None:
    other = Visit(browser, product.url, signed_in)
    for one in (page, other.page):
        one.goto("/fairness/tenant/alpha")
        live(one)
    page.get_by_role("textbox", name="Weight").fill("7")
    page.get_by_label("Reason").fill("mine")
    other.page.get_by_role("textbox", name="Weight").fill("2")
    other.page.get_by_label("Reason").fill("theirs")
    other.page.get_by_role("button", name="Save tenant alpha").click()
    expect(other.page.locator("#toasts")).to_contain_text("Tenant alpha saved")
    expect(page.locator("#verdict")).to_contain_text("Somebody else saved version")
    expect(page.locator("#verdict")).to_contain_text("Weight 1 → 2")
    expect(page.locator("#tables tr", has_text="alpha")).to_contain_text("2")
    expect(page.get_by_role("textbox", name="Weight")).to_have_value("7")
    expect(page.get_by_label("Reason")).to_have_value("mine")
    page.get_by_role("button", name="Save tenant alpha").click()
    expect(page.locator("#verdict")).to_contain_text("Your values are kept")
    assert product.ok("GET", "/api/v1/tenants/alpha")["weight"] == 2, "not before it was told"
    page.get_by_role("button", name="Save tenant alpha").click()
    expect(page.locator("#toasts")).to_contain_text("Tenant alpha saved")
    assert product.ok("GET", "/api/v1/tenants/alpha")["weight"] == 7
    product.patch("tenants", "alpha", weight=1)
    other.close()


def test_numbers_move_while_a_reason_is_typed(product: Product, page: Page) -> None:
    page.goto("/queues/batch")
    live(page)
    field = page.locator("#reason-pause")
    field.press_sequentially("provider is d")
    page.evaluate("document.getElementById('reason-pause').setSelectionRange(3, 3)")
    page.evaluate("scrollTo(0, 120)")
    page.get_by_label("Resume by itself").select_option("60")
    field.focus()
    before, scrolled = page.locator('[data-k="u.queued"]').inner_text(), page.evaluate("scrollY")
    tasks = [task for _ in range(4) for task in submit(product, 2)]
    expect(page.locator('[data-k="u.queued"]')).to_have_text(str(int(before) + 8))
    expect(page.locator('[data-list="next"] tr')).to_have_count(8 + int(before))
    expect(field).to_have_value("provider is d")
    assert page.evaluate("document.getElementById('reason-pause').selectionStart") == 3
    assert page.evaluate("scrollY") == scrolled
    expect(page.get_by_label("Resume by itself")).to_have_value("60")
    for task in tasks:
        product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})


def test_a_cut_socket_is_told_and_comes_back_without_doubles(product: Product, visit: Visit) -> None:
    page = visit.page
    page.goto("/queues/batch")
    live(page)
    tasks = submit(product, 3)
    expect(page.locator('[data-list="next"] tr')).to_have_count(3)
    visit.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#pill b")).to_have_text("Stale", timeout=20_000)
    expect(page.locator("html")).to_have_attribute("data-live", "stale")
    tasks += submit(product, 2)
    visit.context.set_offline(False)
    page.locator("#pill button").click()
    live(page)
    expect(page.locator('[data-list="next"] tr')).to_have_count(5)
    ids = page.eval_on_selector_all('[data-list="next"] tr', "rows => rows.map((row) => row.dataset.id)")
    assert ids == [str(task) for task in tasks]
    for task in tasks:
        product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})
    visit.complaints.clear()  # refused connections are what this test is about


def test_a_killed_agent_is_seen_to_be_lost_and_its_task_goes_back(product: Product, page: Page) -> None:
    [task] = submit(product, capabilities=["doom"])
    agent = subprocess.Popen([sys.executable, "-c", AGENT, product.url, product.admin_key], cwd=ROOT)
    try:
        page.goto("/workers")
        row = page.locator('[data-list="workers"] tr', has_text="doomed")
        expect(row).to_contain_text("1 of 1", timeout=20_000)
        expect(row).to_contain_text("live")
        os.kill(agent.pid, signal.SIGKILL)
        started = time.monotonic()
        expect(row).to_contain_text("0 of", timeout=20_000)
        assert time.monotonic() - started < 6 + 2 + 3, "within the lease, the sweep and a second for the page"
        expect(row).to_contain_text("lost")
        expect(page.locator('[data-k="answer.text"]')).to_contain_text("doomed is lost")
        page.goto(f"/tasks/{task}")
        expect(page.locator("main")).to_contain_text("The heartbeats of the agent stopped")
    finally:
        agent.kill()
        agent.wait()
    product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})


def test_an_edit_on_the_page_bites_what_is_queued(product: Product, page: Page) -> None:
    product.ok("POST", "/api/v1/classes", {"slug": "quick"})  # nobody is owed anything in it
    for tenant in ("alpha", "beta"):
        submit(product, 80, **{"class": "quick"}, tenant=tenant, capabilities=["quick"], type=tenant, cost=1)
    page.goto("/")
    live(page)
    page.get_by_label("Weight of tenant beta").fill("3")
    page.get_by_label("Weight of tenant beta").press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Weight of tenant beta is now 3")
    session = join(product, "quick-1", 1, "quick")
    started: list[str] = []
    lease = claim(product, session)
    while len(started) < 41:
        started.append(lease["type"])
        done = {"token": lease["token"], "result": 1, "cost": 1}
        product.ok("POST", f"/api/v1/tasks/{lease['task_id']}/complete", done)
        lease = claim(product, session)
    assert abs(started[1:].count("beta") / 40 - 0.75) <= 0.07, started
    product.ok("DELETE", f"/api/v1/sessions/{session}")


def claim(product: Product, session: int) -> dict[str, Any]:
    [lease] = product.ok("POST", "/api/v1/claims", {"session_id": session, "max": 1, "wait_s": 10})["leases"]
    return dict(lease)


def test_times_can_be_told_in_the_browsers_zone(product: Product, browser: Browser, signed_in: Any) -> None:
    visit = Visit(browser, product.url, signed_in, timezone_id="Asia/Kolkata")
    page = visit.page
    page.goto("/")
    live(page)
    stamp = page.locator(".head time")
    assert stamp.inner_text().endswith("UTC")
    page.get_by_role("button", name="Times in UTC").first.click()
    expect(stamp).to_contain_text("GMT+5:30")
    page.wait_for_timeout(1200)
    expect(stamp).to_contain_text("GMT+5:30")
    page.goto("/system")
    expect(page.locator(".head time")).to_contain_text("GMT+5:30")
    visit.close()


def test_a_chart_says_what_it_shows_and_has_a_table(product: Product, page: Page) -> None:
    page.goto("/queues/batch")
    chart = page.get_by_role("img", name="Queue age")
    expect(chart).to_have_attribute("aria-label", re.compile("Queue age, last 15 m"))
    page.locator(".plot summary").first.click()
    expect(page.locator(".plot").first.locator("tbody tr")).to_have_count(90)
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((one) => one)"
    assert chart.evaluate(drawn), "something is drawn"


def test_pages_do_not_come_back_all_at_once(product: Product, browser: Browser, signed_in: Any) -> None:
    visit = Visit(browser, product.url, signed_in)
    visit.page.add_init_script(
        """window.waits = []; const real = window.setTimeout;
        window.setTimeout = (work, ms, ...more) => {
          const again = /connect\\(\\)/.test(String(work));
          if (again) window.waits.push(ms);
          return again && window.waits.length < 40 ? real(work, 1) : real(work, ms, ...more);
        };
        window.WebSocket = class { constructor() { real(() => this.onclose?.(), 1); } };"""
    )
    visit.page.goto("/")
    visit.page.wait_for_function("() => window.waits.length >= 30")
    waits = visit.page.evaluate("window.waits.slice(0, 30)")
    parts = [wait / min(15_000, 500 * 2**tries) for tries, wait in enumerate(waits)]
    assert all(0.75 <= part <= 1.25 for part in parts), "longer each time, up to 15 s, and spread by half"
    assert max(parts) - min(parts) > 0.2 and waits[-1] > 11_000
    visit.close()
