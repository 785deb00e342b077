"""`make screenshots`: every page of a running demo in light and dark, wide and narrow, as pictures in screenshots/.

Usage: python -m tests.ui.screenshots [seconds to let the demo work first]
"""

import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.acceptance.harness import ROOT, Product, running
from tests.ui.browsing import NARROW, WIDE, launch_arguments, sign_in

FOLDER = ROOT / "screenshots"
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/background",
    "tasks": "/tasks",
    "task": "/tasks/4",
    "workers": "/workers",
    "worker": "/workers/1",
    "alerts": "/alerts",
    "dead": "/dead",
    "bulk": "/bulk",
    "capabilities": "/capabilities",
    "fairness": "/fairness/class/interactive",
    "audit": "/audit",
    "system": "/system",
    "department": "/t/sales/",
    "account": "/account",
    "password": "/account/password",
}


def main(patience: float) -> None:
    """Start the demo, wait, take the pictures."""
    FOLDER.mkdir(exist_ok=True)
    with running(command=("demo",)) as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_arguments())
        time.sleep(patience)
        for scheme in ("light", "dark"):
            for size in (WIDE, NARROW):
                take(browser, product, scheme, size)
        browser.close()


def take(browser: Browser, product: Product, scheme: str, size: dict[str, int]) -> None:
    """All pages in one theme and size."""
    context = browser.new_context(color_scheme=scheme, viewport=size, base_url=product.url)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto("/login")
    page.screenshot(path=picture("sign-in", scheme, size))
    sign_in(page, product.url, str(product.operator["email"]), str(product.operator["password"]))
    for name, path in PAGES.items():
        page.goto(path)
        page.wait_for_timeout(1500)
        page.evaluate("document.querySelector('.banner')?.remove()")  # the word about a new installation's password
        page.screenshot(path=picture(name, scheme, size))
    context.close()


def picture(name: str, scheme: str, size: dict[str, int]) -> Path:
    """Where one picture goes."""
    return FOLDER / f"{name}-{size['width']}-{scheme}.png"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 45)
