"""Debian's chromium for tests and screenshots: where it is, how it starts, how a person signs in."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

PLACES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--disable-sync"]
REFUSALS = (409, 422)  #: chromium writes refused commands to the console; the page tells them where they belong
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def chromium() -> Path | None:
    """The installed browser, if any."""
    return next((Path(path) for name in PLACES if (path := shutil.which(name))), None)


def launch_arguments() -> dict[str, Any]:
    """How to start it. Without one the test is skipped, but not where CI promised to install it."""
    found = chromium()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    return {"executable_path": str(found), "args": ARGUMENTS}


def sign_in(page: Page, url: str, email: str, password: str) -> None:
    """Through the door to the Overview."""
    page.goto(f"{url}/login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview", level=1).wait_for()


class Visit:
    """One browser context whose console, errors and requests are watched."""

    def __init__(self, browser: Browser, url: str, state: Any = None, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(
            base_url=url, storage_state=state, **({"viewport": WIDE} | options)
        )
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.abroad: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._console)
        self.page.on(
            "request", lambda request: request.url.startswith((url, "data:")) or self.abroad.append(request.url)
        )

    def _console(self, message: Any) -> None:
        refused = any(f"a status of {status}" in message.text for status in REFUSALS)
        if message.type in ("error", "warning") and not refused:
            self.complaints.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        """End it; nothing may have gone wrong on the way."""
        self.context.close()
        assert self.complaints == [], self.complaints
        assert self.abroad == [], self.abroad
