"""The console in a real Chromium on the real product: sign in, see numbers move, edit, requeue, lose the server."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.harness import Product, running
from tests.ui.browsing import NARROW, WIDE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.timeout(240)]
PAGES = [
    "/",
    "/queues",
    "/queues/critical",
    "/queues?by=user&view=table",
    "/tasks",
    "/tasks/1",
    "/workers",
    "/workers/1",
    "/dead",
    "/capabilities",
    "/fairness",
    "/fairness/class/critical",
    "/audit",
    "/system",
    "/account/password",
    "/docs",
    "/docs/submit",
]

SHOWS = '([key, text]) => document.querySelector(`[data-k="${key}"]`).textContent === text'


@pytest.fixture(scope="module")
def product(browser_type_launch_args: dict[str, Any]) -> Iterator[Product]:
    """A running product with classes, tenants, queued work, a worker and a dead letter."""
    with running() as found:
        for slug in ("critical", "interactive"):
            found.ok("POST", "/api/v1/classes", {"slug": slug, "slo_queue_s": 60})
        for slug in ("sales", "legal"):
            found.ok("POST", "/api/v1/tenants", {"slug": slug})
        submit(found, tenant="legal", capabilities=["ocr"])
        die(found)
        yield found


@pytest.fixture
def page(visit: Visit) -> Page:
    """The Overview, live."""
    visit.page.goto("/")
    live(visit.page)
    return visit.page


def live(page: Page) -> None:
    expect(page.locator("#pill b")).to_have_text("Live")
    expect(page.locator("#pill .lag")).to_contain_text("s lag")


def submit(product: Product, **fields: Any) -> int:
    task = {"tenant": "sales", "class": "interactive", "payload": {"n": 1}, "type": "index"} | fields
    return int(product.ok("POST", "/api/v1/tasks", task)["id"])


def die(product: Product) -> int:
    """Have one task fail for good; its id."""
    task = submit(product, type="poison", capabilities=["poison"])
    worker = {"name": "poisoned", "capabilities": ["poison"], "slots": 1}
    session = product.ok("POST", "/api/v1/workers", worker)["session_id"]
    [lease] = product.ok("POST", "/api/v1/claims", {"session_id": session, "max": 1, "wait_s": 10})["leases"]
    error = {"message": "cannot <b>parse</b> record", "kind": "permanent"}
    product.ok("POST", f"/api/v1/tasks/{lease['task_id']}/fail", {"token": lease["token"], "error": error})
    product.ok("DELETE", f"/api/v1/sessions/{session}")
    return task


def number(page: Page, key: str) -> int:
    return int(page.locator(f'[data-k="{key}"]').inner_text().split()[0].replace(",", ""))


def test_a_number_moves_within_a_second_of_the_change(product: Product, page: Page) -> None:
    slowest = 0.0
    for _ in range(3):
        before = number(page, "t.queued")
        submit(product, capabilities=["nobody-has-this"])
        started = time.monotonic()
        page.wait_for_function(SHOWS, arg=["t.queued", str(before + 1)], polling="raf")
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < 1.0
    expect(page.locator('[data-k="c.interactive.queued"]')).to_contain_text("queued")


def test_what_is_being_typed_is_never_touched(product: Product, page: Page) -> None:
    field = page.get_by_label("Weight of class interactive")
    field.fill("7")
    assert page.evaluate("document.activeElement.name") == "weight"
    product.patch("classes", "interactive", weight=2)
    before = number(page, "t.queued")
    submit(product, capabilities=["nobody-has-this"])
    expect(page.locator('[data-k="t.queued"]')).to_have_text(str(before + 1))
    form = page.locator("form[data-edit]", has=field)
    expect(form.get_by_role("status")).to_have_text("Somebody else set it to 2 meanwhile.")
    expect(field).to_have_value("7")
    field.blur()
    page.wait_for_timeout(1500)
    expect(field).to_have_value("7")

    form.get_by_label("Reason").fill("quarter end")
    form.get_by_role("button", name="Save weight").click()
    note = "Not applied: somebody else saved 2 first. Save again to replace it."
    expect(form.get_by_role("status")).to_have_text(note)
    form.get_by_role("button", name="Save weight").click()
    expect(page.locator("#toasts")).to_contain_text("Weight of class interactive is now 7")
    saved = product.ok("GET", "/api/v1/classes/interactive")
    assert saved["weight"] == 7
    expect(form).not_to_have_attribute("data-dirty", "")
    expect(page.locator('[data-list="commands"]')).to_contain_text("quarter end")


def test_a_field_at_rest_follows_the_others(product: Product, page: Page) -> None:
    product.patch("tenants", "legal", weight=3)
    expect(page.get_by_label("Weight of tenant legal")).to_have_value("3")


def test_a_bad_weight_is_told_beside_the_field(product: Product, page: Page) -> None:
    field = page.get_by_label("Weight of class critical")
    field.fill("-1")
    field.press("Enter")
    form = page.locator("form[data-edit]", has=field)
    expect(form.get_by_role("status")).to_contain_text("0")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.press("Escape")
    expect(field).to_have_value("1")
    assert product.ok("GET", "/api/v1/classes/critical")["weight"] == 1


def test_a_dead_letter_appears_and_is_requeued(product: Product, page: Page) -> None:
    task = die(product)
    row = page.locator(f'[data-list="dead"] [data-id="{task}"]')
    expect(row).to_contain_text("cannot <b>parse</b> record")
    row.get_by_role("button", name=f"Requeue task {task}").click()
    expect(page.locator("#toasts")).to_contain_text(f"Task {task} requeued")
    expect(row).to_have_count(0)
    assert product.ok("GET", f"/api/v1/tasks/{task}")["state"] == "queued"
    product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})


def test_a_worker_and_its_lease_count_down(product: Product, page: Page) -> None:
    task = submit(product, capabilities=["ring"])
    worker = {"name": "ring-1", "capabilities": ["ring"], "slots": 3}
    session = product.ok("POST", "/api/v1/workers", worker)["session_id"]
    product.ok("POST", "/api/v1/claims", {"session_id": session, "max": 1, "wait_s": 10})
    row = page.locator('[data-list="workers"] tr', has_text="ring-1")
    expect(row).to_contain_text("1 of 3")
    digits = row.locator("[data-count]")
    seen = set()
    for _ in range(4):
        seen.add(digits.inner_text())
        page.wait_for_timeout(1000)
    assert len(seen) >= 3 and all(text.startswith("0:") for text in seen), seen
    product.ok("POST", f"/api/v1/tasks/{task}/cancel", {})
    product.ok("DELETE", f"/api/v1/sessions/{session}")


def test_space_pauses_and_resumes(product: Product, page: Page) -> None:
    before = number(page, "t.queued")
    page.locator("h1").click()
    page.keyboard.press("Space")
    expect(page.locator("#pill b")).to_have_text("Paused")
    submit(product, capabilities=["nobody-has-this"])
    page.wait_for_timeout(1500)
    assert number(page, "t.queued") == before
    page.keyboard.press("Space")
    expect(page.locator('[data-k="t.queued"]')).to_have_text(str(before + 1))
    expect(page.locator("#pill b")).to_have_text("Live")


def test_selected_text_stays_selected(product: Product, page: Page) -> None:
    cell = page.locator('[data-k="t.queued"]')
    before = cell.inner_text()
    cell.select_text()
    submit(product, capabilities=["nobody-has-this"])
    page.wait_for_timeout(1500)
    assert page.evaluate("getSelection().toString()") == before
    page.evaluate("getSelection().removeAllRanges()")
    expect(cell).to_have_text(str(int(before) + 1))


def test_without_a_socket_the_page_polls(product: Product, browser: Browser, signed_in: Any) -> None:
    visit = Visit(browser, product.url, signed_in)
    visit.page.add_init_script(
        "window.WebSocket = class { constructor() { setTimeout(() => this.onclose?.(), 10); } };"
    )
    visit.page.goto("/")
    expect(visit.page.locator("#pill .lag")).to_have_text("· every 5 s")
    before = number(visit.page, "t.queued")
    submit(product, capabilities=["nobody-has-this"])
    expect(visit.page.locator('[data-k="t.queued"]')).to_have_text(str(before + 1), timeout=9000)
    visit.close()


def test_the_page_recovers_from_a_lost_server(product: Product, browser: Browser, signed_in: Any) -> None:
    visit = Visit(browser, product.url, signed_in)
    page = visit.page
    page.goto("/")
    live(page)
    page.evaluate("window.untouched = true")
    product.kill("web")
    expect(page.locator("#pill b")).not_to_have_text("Live")
    product.wait_for(product.healthy, 60)
    before = int(product.ok("GET", "/api/v1/stats")["classes"][0]["queued"])
    assert before >= 0
    expect(page.locator("#pill b")).to_have_text("Live", timeout=30_000)
    task = submit(product, tenant="legal", capabilities=["nobody-has-this"])
    assert task and page.evaluate("window.untouched"), "it was not reloaded"
    live(page)
    visit.complaints.clear()  # refused connections are what this test is about
    visit.close()


def test_the_first_key_leads_past_the_navigation(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()


def test_the_theme_is_kept(page: Page) -> None:
    theme = page.get_by_role("button", name="Theme: as the system").first
    theme.click()
    page.get_by_role("button", name="Theme: light").first.click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(236, 238, 241)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_every_page_is_accessible(scheme: Any, size: Any, product: Product, browser: Browser, signed_in: Any) -> None:
    visit = Visit(browser, product.url, signed_in, color_scheme=scheme, viewport=size)
    out = Visit(browser, product.url, color_scheme=scheme, viewport=size)
    found = []
    for one, path in [(out, "/login"), *((visit, path) for path in PAGES)]:
        assert (one.page.goto(path) or Any).status == 200, path
        one.page.wait_for_timeout(300)
        for violation in Axe().run(one.page).response["violations"]:
            places = [" ".join(map(str, node["target"])) for node in violation["nodes"][:4]]
            found.append(f"{path} {violation['id']}: {places}")
        wider = one.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"{path} is {wider} px too wide"
    visit.close()
    out.close()
    assert found == [], "\n".join(found)


def test_the_page_is_small_and_asks_nobody_else(product: Product, visit: Visit) -> None:
    sizes: dict[str, int] = {}
    visit.page.on(
        "requestfinished",
        lambda request: sizes.update({request.url.removeprefix(product.url): request.sizes()["responseBodySize"]}),
    )
    answer = visit.page.goto("/")
    assert answer is not None and "script-src 'self'" in answer.headers["content-security-policy"]
    live(visit.page)
    own = sum(size for url, size in sizes.items() if "/static/js/" in url)
    styles = sum(size for url, size in sizes.items() if "/static/css/" in url)
    assert 0 < own <= 40_000 and 0 < styles <= 25_000 and sizes["/"] <= 60_000, sizes
