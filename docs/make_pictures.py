"""Makes the pictures of the pages in docs/pictures: `python docs/make_pictures.py`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tacit.evaluation.web_demo import fill, train
from tacit.evaluation.world import make_world
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import ReportStore

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"

sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
from conftest import ADMIN, QUIET, Provider, served

STARS = {"0": 5, "1": 2, "2": 4, "3": 1, "4": 5, "5": 4, "6": 4, "7": 5, "8": 2, "9": 4}


def main() -> None:
    """Fill a service, use it, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = ReportStore.open(f"sqlite:///{folder / 'tacit.db'}")
        policy = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
        fill(store, make_world(policy.scale), policy)
        train(store, folder / "models", print)
        store.close()
        with served(f"sqlite:///{folder / 'tacit.db'}", folder / "models") as provider, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
            shoot(browser, provider)
            browser.close()


def shoot(browser: Browser, provider: Provider) -> None:
    """Take every picture."""
    wide = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    wide.goto(provider.address)
    wide.get_by_test_id("consent-agree").wait_for()
    save(wide, "consent")
    rate(wide)
    save(wide, "rate")
    phone = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark", has_touch=True).new_page()
    phone.goto(provider.address)
    rate(phone)
    phone.locator("#rate-title").scroll_into_view_if_needed()
    phone.evaluate("document.getElementById('rate-title').scrollIntoView()")
    save(phone, "rate-phone-dark")
    phone.evaluate("document.getElementById('lists-title').scrollIntoView()")
    save(phone, "lists-phone-dark")
    wide.goto(f"{provider.address}/explore", wait_until="networkidle")
    save(wide, "explore")
    wide.goto(f"{provider.address}/operator")
    wide.get_by_test_id("token").fill(ADMIN)
    wide.get_by_test_id("enter").click()
    wide.get_by_test_id("start-run").click()
    wide.get_by_test_id("run-state").filter(has_text="published").first.wait_for(timeout=120_000)
    wide.wait_for_timeout(6000)
    save(wide, "operator", whole=True)
    wide.goto(f"{provider.address}/api", wait_until="networkidle")
    save(wide, "api")


def rate(page: Page) -> None:
    """Agree, rate ten items, and wait until they are sent."""
    page.get_by_test_id("consent-agree").click()
    page.get_by_test_id("own-list").locator("li").first.wait_for()
    for item, stars in STARS.items():
        row = page.locator(f'[data-testid="item"][data-item="{item}"]')
        row.get_by_role("radio", name=f"{stars} of 5").click()
    page.mouse.move(5, 5)
    page.locator(f'[data-testid="item"][data-item="{item}"][data-state="sent"]').wait_for()
    page.get_by_test_id("reason").first.wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(800)


def save(page: Page, name: str, *, whole: bool = False) -> None:
    """Take a picture."""
    page.screenshot(path=PICTURES / f"{name}.png", full_page=whole)


if __name__ == "__main__":
    main()
