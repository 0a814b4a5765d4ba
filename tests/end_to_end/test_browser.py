"""The whole way of a rating in a real browser, with an eye on every byte that leaves it."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tacit.device import rank_items
from tacit.privacy.compact import decode_compact, encode_compact
from tacit.privacy.item_wire import decode_items
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Request

ADMIN = "an-admin-token-for-tests"
STARS = {"1": 5, "2": 1, "3": 4, "5": 2, "8": 5, "13": 3, "21": 5, "34": 1, "55": 4, "89": 5}

# All that the page may ask for, and all that may be said of it beside the address and the body.
ALLOWED = re.compile(
    r"GET /(assets/[\w.-]+)?|GET /v1/(policy|items|model|model/items|recommendations|devices/me)|POST /v1/reports"
    r"|DELETE /v1/devices/me"
)
HEADERS = {
    "accept", "accept-encoding", "accept-language", "authorization", "cache-control", "connection", "content-length",
    "content-type", "host", "if-none-match", "origin", "pragma", "upgrade-insecure-requests", "user-agent",
}  # fmt: skip

# Reads all stores of all databases, and what else a page can keep.
KEPT = """async () => {
    const done = (request) => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    const found = [...Object.entries(localStorage), ...Object.entries(sessionStorage)];
    for (const { name } of await indexedDB.databases()) {
        const database = await done(indexedDB.open(name));
        for (const store of database.objectStoreNames) {
            const rows = database.transaction(store).objectStore(store);
            found.push(...(await done(rows.getAll())));
        }
        database.close();
    }
    return [...found, ...(await caches.keys()), ...(document.cookie ? [document.cookie] : [])];
}"""


class Watched:
    """A page, with every request that it makes."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request))  # noqa: PLW0108 - it takes no builtin
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)

    def consent(self) -> None:
        self.page.goto(self.address)
        self.page.get_by_test_id("consent-agree").click()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        self.page.get_by_test_id("app").wait_for()
        self.page.locator("body[data-ready]").wait_for(state="attached")
        self.page.get_by_test_id("own-list").locator("li").first.wait_for()

    def row(self, item: str) -> Any:
        return self.page.locator(f'[data-testid="item"][data-item="{item}"]')

    def rate(self, item: str, stars: int) -> None:
        while not self.row(item).count():
            self.page.locator("#more-items").click()
        self.row(item).get_by_role("radio", name=f"{stars} of 5").click()

    def wait_until_sent(self, items: set[str]) -> None:
        for item in items:
            self.page.locator(f'[data-testid="item"][data-item="{item}"][data-state="sent"]').wait_for(timeout=20_000)

    def wait_until_refused(self, item: str) -> None:
        self.page.locator(f'[data-testid="item"][data-item="{item}"][data-state="refused"]').wait_for(timeout=20_000)

    def delete_everything(self) -> None:
        """Say yes to the question, and wait until the page begins afresh."""
        self.page.get_by_test_id("dialog-yes").click()
        self.page.get_by_test_id("consent-agree").wait_for()

    def kept(self) -> Any:
        """Everything that the browser keeps of this origin."""
        return self.page.evaluate(KEPT)

    def batches(self) -> list[bytes]:
        return [request.post_data_buffer or b"" for request in self.requests if request.url.endswith("/v1/reports")]


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Watched]:
    context = browser.new_context(**options)
    try:
        yield Watched(context.new_page(), address)
    finally:
        context.close()


def fetched(address: str, path: str, *, admin: bool = False, method: str = "GET") -> bytes:
    headers = {"Authorization": f"Bearer {ADMIN}"} if admin else {}
    request = urllib.request.Request(f"{address}{path}", headers=headers, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return bytes(answer.read())


def check_nothing_else_leaves(watched: Watched, policy: Policy) -> dict[str, int]:
    """Account for every byte of every request; return the symbol said of every item."""
    said: dict[str, int] = {}
    for request in watched.requests:
        address = urlsplit(request.url)
        assert f"{address.scheme}://{address.netloc}" == watched.address
        assert ALLOWED.fullmatch(f"{request.method} {address.path}"), request.url
        assert re.fullmatch(r"(after=\d+&)?(limit=\d+)?(n=\d+)?", address.query), request.url
        headers = {name: value for name, value in request.all_headers().items() if not name.startswith(("sec-", ":"))}
        assert set(headers) <= HEADERS
        assert re.fullmatch(r"(Bearer [0-9a-f]{32})?", headers.get("authorization", ""))
        body = request.post_data_buffer or b""
        if not body:
            continue
        assert headers["content-type"] == "application/vnd.tacit.reports"
        reports = decode_compact(body, {policy.id: policy})
        # The one way to write policy, items, symbols and revisions, in order of item: nothing is left to hide a rating.
        assert encode_compact(reports, policy) == body
        assert [report.item for report in reports] == sorted(report.item for report in reports)
        assert all(report.revision == 0 for report in reports)
        said |= {report.item: report.symbol for report in reports}
    return said


def test_the_whole_way_of_ten_ratings(browser: Browser, provider: Any) -> None:
    policy = Policy.from_json(fetched(provider.address, "/v1/policy"))
    with opened(browser, provider.address) as watched:
        page = watched.page
        page.goto(provider.address)
        page.get_by_test_id("policy-verified").wait_for()
        assert not watched.batches()
        page.get_by_test_id("consent-agree").click()
        watched.wait_until_ready()
        for item, stars in STARS.items():
            watched.rate(item, stars)
        watched.wait_until_sent(set(STARS))

        said = check_nothing_else_leaves(watched, policy)
        assert set(said) == set(STARS)
        tokens = {
            header.removeprefix("Bearer ")
            for request in watched.requests
            if (header := request.all_headers().get("authorization"))
        }
        assert len(tokens) == 1
        token_hash = hashlib.sha256(tokens.pop().encode()).digest()
        store = provider.store
        kept = store.reports_of(token_hash)
        assert kept is not None
        assert {report.item: report.symbol for report in kept} == said

        # Ranked in the page as Python would rank: same items, same order, without asking for any item.
        own = page.get_by_test_id("own-suggestion")
        own.first.wait_for()
        listed = [own.nth(at).get_attribute("data-item") for at in range(own.count())]
        ranking = rank_items(decode_items(fetched(provider.address, "/v1/model/items")), STARS)
        assert listed == [str(one.item) for one in ranking.recommend(len(listed))]
        assert own.first.get_by_test_id("reason").inner_text()

        # Train again, with these reports, and fetch the new model.
        run = json.loads(fetched(provider.address, "/v1/training-runs", admin=True, method="POST"))["id"]
        while json.loads(fetched(provider.address, f"/v1/training-runs/{run}", admin=True))["state"] in (
            "queued",
            "running",
        ):
            page.wait_for_timeout(200)
        before = len(watched.requests)
        page.get_by_test_id("refresh").click()
        page.wait_for_function(
            "() => performance.getEntriesByType('resource').some(e => e.name.endsWith('/v1/model/items'))"
        )
        page.wait_for_timeout(500)
        ranking = rank_items(decode_items(fetched(provider.address, "/v1/model/items")), STARS)
        listed = [own.nth(at).get_attribute("data-item") for at in range(own.count())]
        assert listed == [str(one.item) for one in ranking.recommend(len(listed))]
        asked = [urlsplit(request.url).path for request in watched.requests[before:]]
        assert asked
        assert set(asked) <= {"/v1/model", "/v1/model/items", "/v1/recommendations", "/v1/policy"}

        # Delete everything: gone from the database, gone from the browser.
        page.get_by_test_id("delete").click()
        assert "how much epsilon was spent" in page.get_by_test_id("dialog").inner_text()
        watched.delete_everything()
        assert store.reports_of(token_hash) is None
        assert store.count("devices") == 200
        check_nothing_else_leaves(watched, policy)
        assert watched.complaints == []
        store.close()


def test_what_was_spent_outlasts_a_deletion_and_nothing_else_does(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        page = watched.page
        for spent in (2, 4):
            watched.consent()
            watched.rate("1", 4)
            watched.rate("2", 1)
            watched.wait_until_sent({"1", "2"})
            before = ", 2 of it before you deleted everything" if spent > 2 else ""
            assert page.get_by_test_id("spent").inner_text() == f"Lifetime cap: {spent} of 50 spent{before}"
            assert any("rating" in kept for kept in watched.kept())
            page.get_by_test_id("delete").click()
            # What is left before the page makes a new device: without its script it makes none.
            page.route("**/assets/index.js", lambda route: route.abort())
            page.get_by_test_id("dialog-yes").click()
            page.locator("body:not([data-ready])").wait_for(state="attached")
            assert watched.kept() == [["tacit-deleted", "here"], {"spentBefore": str(spent)}]
            page.unroute("**/assets/index.js")
            page.reload()
            page.get_by_test_id("consent-agree").wait_for()
            assert f"and {spent} counts already" in page.get_by_test_id("consent").inner_text()
            assert "deleted" in page.get_by_test_id("notice").inner_text().lower()
            device = watched.kept()
            assert len(device) == 1
            assert set(device[0]) == {"changes", "lifetimeEpsilon", "policy", "spentBefore", "token"}
        watched.consent()
        assert page.get_by_test_id("spent").inner_text() == (
            "Lifetime cap: 4 of 50 spent, 4 of it before you deleted everything"
        )
        totals = page.get_by_test_id("totals").inner_text()
        assert re.findall(r"Epsilon.*\n+(\d+)", totals) == ["4", "4"]


def test_a_refused_report_is_shown_and_sent_again_but_not_in_a_loop(browser: Browser, provider: Any) -> None:
    def refuse(route: Any) -> None:
        rejected = [{"index": 0, "code": "unknown-item"}]
        route.fulfill(json={"accepted": 0, "duplicates": 0, "rejected": rejected})

    with opened(browser, provider.address) as watched:
        page = watched.page
        watched.consent()
        page.route("**/v1/reports", refuse)
        watched.rate("1", 4)
        watched.wait_until_refused("1")
        said = watched.row("1").get_by_test_id("said")
        assert said.inner_text().startswith("Refused by the provider: it does not list this item.")
        page.wait_for_timeout(2500)
        assert len(watched.batches()) == 1

        page.reload()
        watched.wait_until_ready()
        watched.wait_until_refused("1")
        page.wait_for_timeout(2500)
        assert len(watched.batches()) == 2

        page.unroute("**/v1/reports")
        watched.rate("1", 4)  # the same again
        watched.wait_until_sent({"1"})
        assert len(set(watched.batches())) == 1  # the one draw, three times
        assert page.get_by_test_id("spent").inner_text() == "Lifetime cap: 1 of 50 spent"


def test_a_window_begins_afresh_after_another_has_deleted_everything(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        watched.consent()
        watched.rate("1", 4)
        watched.wait_until_sent({"1"})
        other = Watched(watched.page.context.new_page(), provider.address)
        other.page.goto(provider.address)
        other.wait_until_ready()
        watched.page.get_by_test_id("delete").click()
        watched.delete_everything()

        other.rate("2", 5)
        other.page.get_by_test_id("consent-agree").wait_for()
        assert "deleted in another window" in other.page.get_by_test_id("notice").inner_text()
        assert other.page.get_by_test_id("app").is_hidden()
        assert not other.batches()
        assert other.complaints == []


def test_requests_look_the_same_whatever_the_ratings(browser: Browser, provider: Any) -> None:
    shapes = []
    for stars in (1, 5):
        with opened(browser, provider.address) as watched:
            watched.consent()
            for item in list(STARS)[:4]:
                watched.rate(item, stars)
                watched.wait_until_sent({item})
            shapes.append(
                [
                    (request.method, request.url, len(request.post_data_buffer or b""), sorted(request.all_headers()))
                    for request in watched.requests
                    if request.method != "GET"
                ]
            )
    assert shapes[0] == shapes[1]


def test_nothing_is_sent_before_consent_or_while_paused(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        watched.page.goto(provider.address)
        watched.page.get_by_test_id("consent-agree").wait_for()
        assert all(request.method == "GET" for request in watched.requests)
        assert all("authorization" not in request.all_headers() for request in watched.requests)
        watched.page.get_by_test_id("consent-agree").click()
        watched.rate("1", 4)
        watched.wait_until_sent({"1"})
        watched.page.get_by_test_id("pause").click()
        watched.page.wait_for_timeout(300)
        before = len(watched.batches())
        watched.page.reload()
        watched.page.wait_for_timeout(1000)
        assert len(watched.batches()) == before


def test_offline_ratings_wait_and_are_sent_later(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        watched.consent()
        watched.row("1").wait_for()
        watched.page.context.set_offline(True)
        watched.rate("1", 4)
        watched.page.locator('[data-testid="item"][data-item="1"][data-state="waiting"]').wait_for()
        watched.page.context.set_offline(False)
        watched.wait_until_sent({"1"})


def test_a_tampered_policy_is_refused_in_the_page(browser: Browser, provider: Any) -> None:
    document = json.loads(fetched(provider.address, "/v1/policy"))
    row = document["channel"]["weights"][0]
    row[0], row[1] = str(int(row[0]) + int(row[1]) - 1), "1"  # sums are right, the loss and the id are not
    with opened(browser, provider.address) as watched:
        watched.page.route("**/v1/policy", lambda route: route.fulfill(json=document))
        watched.page.goto(provider.address)
        watched.page.get_by_test_id("policy-refused").wait_for()
        assert not watched.page.get_by_test_id("consent-agree").count()
        assert all(request.method == "GET" for request in watched.requests)


@pytest.mark.parametrize("path", ["/", "/explore", "/operator", "/api"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_loads_from_here_alone_and_fits_a_phone(
    browser: Browser, provider: Any, path: str, scheme: str
) -> None:
    with opened(browser, provider.address, color_scheme=scheme, viewport={"width": 320, "height": 700}) as watched:
        watched.page.goto(f"{provider.address}{path}", wait_until="networkidle")
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 320
        assert all(request.url.startswith((provider.address, "data:")) for request in watched.requests)
        assert watched.complaints == []  # the strict content policy was not offended


def test_the_keyboard_is_enough(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        page = watched.page
        page.goto(provider.address)
        page.get_by_test_id("consent-agree").focus()
        page.keyboard.press("Enter")
        watched.wait_until_ready()
        watched.row("1").get_by_role("radio").first.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert not watched.batches()  # looking is not rating
        page.keyboard.press("Enter")
        watched.wait_until_sent({"1"})
        assert watched.row("1").get_by_role("radio", name="4 of 5").get_attribute("aria-checked") == "true"


def test_the_operator_sees_sums_and_starts_a_run(browser: Browser, provider: Any) -> None:
    with opened(browser, provider.address) as watched:
        page = watched.page
        page.goto(f"{provider.address}/operator")
        page.get_by_test_id("token").fill("not-the-admin-token")
        page.get_by_test_id("enter").click()
        page.wait_for_timeout(500)
        assert "does not accept this token" in page.get_by_test_id("notice").inner_text()
        page.get_by_test_id("token").fill(ADMIN)
        page.get_by_test_id("enter").click()
        page.get_by_test_id("start-run").click()
        page.get_by_test_id("run-state").filter(has_text="published").first.wait_for(timeout=60_000)
        assert all(ADMIN not in request.url for request in watched.requests)
        assert page.evaluate("[...Object.values(localStorage), ...Object.values(sessionStorage)].length") == 0
