"""Passkeys and authenticator apps in a real Chromium, the pages of people and departments for everybody's eyes, and
keys that are rotated and revoked while an agent works with them.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.harness import Product, running
from tests.ui.browsing import NARROW, WIDE, Visit, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.timeout(240)]
PAGES = ["", "quota", "members", "keys", "webhooks", "usage"]
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
}


@pytest.fixture(scope="module")
def product(browser_type_launch_args: dict[str, Any]) -> Iterator[Product]:
    """A running product with a department that has work, a key and a request."""
    with running() as found:
        found.ok("POST", "/api/v1/classes", {"slug": "interactive", "slo_queue_s": 60})
        found.ok("POST", "/api/v1/tenants", {"slug": "sales", "nominal": 2})
        task = {"tenant": "sales", "class": "interactive", "user": "ana", "payload": 1}
        found.ok("POST", "/api/v1/tasks", {"tasks": [task] * 3})
        found.ok("POST", "/api/v1/keys", {"name": "crm-sync", "scopes": ["submit"], "tenant": "sales"})
        found.ok("POST", "/api/v1/quota-requests", {"tenant": "sales", "changes": {"nominal": 9}, "reason": "more"})
        yield found


@pytest.fixture
def page(product: Product, browser: Browser) -> Iterator[Page]:
    """A page of somebody who has just signed in; by the host name, which passkeys need."""
    context = browser.new_context(viewport=WIDE, base_url=product.url.replace("127.0.0.1", "localhost"))
    context.set_default_timeout(10_000)
    found = context.new_page()
    operator = product.operator
    sign_in(found, product.url.replace("127.0.0.1", "localhost"), str(operator["email"]), str(operator["password"]))
    yield found
    context.close()


def confirm(page: Page, product: Product, path: str) -> None:
    """Go to a page that asks for the password again."""
    page.goto(path)
    page.get_by_label("Password").fill(str(product.operator["password"]))
    page.get_by_role("button", name="Go on").click()


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)], ids=["wide", "narrow"])
def test_the_pages_are_accessible_and_fit(
    scheme: str, size: dict[str, int], product: Product, page: Page, browser: Browser
) -> None:
    state = page.context.storage_state()
    visit = Visit(browser, product.url.replace("127.0.0.1", "localhost"), state, color_scheme=scheme, viewport=size)
    for path in [*(f"/t/sales/{name}" for name in PAGES), "/people", "/keys", "/requests", "/account"]:
        visit.page.goto(path)
        found = Axe().run(visit.page)
        assert not found.violations_count, f"{path}: {found.generate_report()}"
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
    visit.close()


def test_a_departments_overview_is_live(product: Product, page: Page) -> None:
    page.goto("/t/sales/")
    expect(page.locator("#pill b")).to_have_text("Live")
    expect(page.locator('[data-k="own.sum"]')).to_contain_text("3 queued")
    product.ok("POST", "/api/v1/tasks", {"tenant": "sales", "class": "interactive", "user": "bo", "payload": 1})
    expect(page.locator('[data-k="own.sum"]')).to_contain_text("4 queued")
    expect(page.locator('[data-list="users"] [data-id="bo"]')).to_be_visible()


def test_keys_are_rotated_and_revoked_under_a_working_agent(product: Product) -> None:
    made = product.ok("POST", "/api/v1/keys", {"name": "agents", "scopes": ["work"]})
    worker = {"name": "a-1", "capabilities": [], "slots": 2}
    session = product.ok("POST", "/api/v1/workers", worker, key=made["key"])["session_id"]
    beat = {"session_id": session, "leases": []}
    new = product.ok("POST", f"/api/v1/keys/{made['id']}/rotate", {"overlap_s": 60})
    for key in (made["key"], new["key"]):
        assert product.call("POST", "/api/v1/workers", worker, key=key)[0] == 201, "both live during the overlap"
    assert product.call("POST", "/api/v1/heartbeats", beat, key=made["key"])[0] == 200
    started = time.monotonic()
    product.ok("DELETE", f"/api/v1/keys/{made['id']}")
    product.wait_for(lambda: product.call("POST", "/api/v1/heartbeats", beat, key=made["key"])[0] == 401, 10)
    assert time.monotonic() - started < 5.5, "revoked everywhere within 5 s"
    assert product.call("POST", "/api/v1/workers", worker, key=new["key"])[0] == 201


def test_an_authenticator_app_is_asked_for_and_a_passkey_signs_in_alone(product: Product, page: Page) -> None:
    confirm(page, product, "/account/totp/activate")
    secret = page.get_by_label("Secret, to type").input_value()
    page.get_by_label("Code of the app").fill(code(secret))
    page.get_by_role("button", name="Add the app").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    one = page.locator(".codes li").first.inner_text()
    page.context.clear_cookies()
    page.goto("/login")
    page.get_by_label("E-mail").fill(str(product.operator["email"]))
    page.get_by_label("Password").fill(str(product.operator["password"]))
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Code of your").fill(one)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()

    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    confirm(page, product, "/account/passkeys/add")
    page.get_by_label("Name, to tell it").fill("laptop")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_text("laptop")).to_be_visible()
    page.context.clear_cookies()
    page.goto("/login")
    page.get_by_role("button", name="Continue with a passkey").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()


def code(secret: str) -> str:
    return str(format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time())))))
