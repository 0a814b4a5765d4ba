from __future__ import annotations

import base64
import gzip
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from decimal import Decimal
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tacit.device import Client, Device, account, transport
from tacit.device.answers import ListedItem, Recommendation
from tacit.errors import (
    ConsentError,
    DeviceError,
    InvalidInputError,
    ModelError,
    PolicyError,
    PrivacyClaimError,
    ProviderError,
)
from tacit.privacy.compact import decode_compact
from tacit.privacy.item_model import ItemModel
from tacit.privacy.item_wire import MEDIA_TYPE, encode_items
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.privacy.report import Report

STARS = RatingScale.parse("1:5:1")
LAPLACE = Policy.make("bounded-laplace", STARS, "1")
ONE_BIT = Policy.make("duchi", STARS, "0.5")
CERTIFICATE = Path(__file__).parent / "localhost.pem"
PROTOCOL = Path(__file__).parents[2] / "protocol"


def item_model(scale: RatingScale = STARS, seed: int = 0) -> ItemModel:
    factors = np.random.default_rng(seed).normal(size=(8, 2)).astype(np.float32)
    return ItemModel(scale, Vocabulary.of(range(8)), 3.0, factors[:, 0].copy(), factors)


class HonestProvider:
    """Keeps to the contract, in memory, until the real service is asked the same."""

    def __init__(self) -> None:
        self.policies = {LAPLACE.id: LAPLACE}
        self.current = LAPLACE
        self.catalogue = {str(number): f"Film {number}" for number in range(5000)}
        self.devices: dict[str, dict[tuple[str, int], Report]] = {}
        self.model: bytes | None = encode_items(item_model())
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.failures: list[tuple[int, dict[str, str], bytes]] = []
        self.connections = 0
        self.hung_up = 0
        self.askers: list[tuple[int, str | None]] = []
        self.page = 2000

    def answer(  # noqa: PLR0911 - one for each path
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        self.requests.append((method, target, headers, body))
        if self.failures:
            return self.failures.pop(0)
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match method, parts.path.split("/")[2:]:
            case "GET", ["policy"]:
                return 200, {}, self.current.to_json()
            case "GET", ["policies", name]:
                return (200, {}, self.policies[name].to_json()) if name in self.policies else problem(404, "not-found")
            case "GET", ["items"]:
                return self._page(query)
            case "POST", ["reports"]:
                return self._take(self._device(headers), headers, body)
            case "GET", ["devices", "me"]:
                return self._stored(self._device(headers))
            case "DELETE", ["devices", "me"]:
                self.devices.pop(self._device(headers), None)
                return 204, {}, b""
            case "GET", ["model", "items"]:
                return self._model(headers)
            case "GET", ["recommendations"]:
                self._device(headers)
                rows = [
                    {"item": str(number), "score": 4.5 - number, "rank": number + 1}
                    for number in range(int(query["n"]))
                ]
                return said({"items": rows, "fallback": False, "reason": "reports", "run": 3})
        return problem(404, "not-found")

    def _device(self, headers: dict[str, str]) -> str:
        kind, _, token = headers["authorization"].partition(" ")
        assert kind == "Bearer"
        assert len(token) == 32
        assert set(token) <= set("0123456789abcdef")
        return sha256(token.encode()).hexdigest()

    def _page(self, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        names = list(self.catalogue)
        start = int(query.get("after", 0))
        page = names[start : start + min(int(query["limit"]), self.page)]
        following = start + len(page) if start + len(page) < len(names) else None
        rows = [{"item": name, "title": self.catalogue[name]} for name in page]
        return said({"items": rows, "next": following, "total": len(names)})

    def _take(self, device: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        assert headers["content-type"] == "application/vnd.tacit.reports"
        if body[4:36].hex() not in self.policies:
            return problem(422, "unknown-policy")
        kept, rejected, duplicates = self.devices.setdefault(device, {}), [], 0
        reports = decode_compact(body, self.policies)
        for index, report in enumerate(reports):
            if report.item not in self.catalogue:
                rejected.append({"index": index, "code": "unknown-item"})
            elif (report.item, report.revision) in kept:
                duplicates += 1
            else:
                kept[report.item, report.revision] = report
        accepted = len(reports) - duplicates - len(rejected)
        return said({"accepted": accepted, "duplicates": duplicates, "rejected": rejected})

    def _stored(self, device: str) -> tuple[int, dict[str, str], bytes]:
        if device not in self.devices:
            return problem(404, "unknown-device")
        reports = list(self.devices[device].values())
        rows = [{name: getattr(one, name) for name in ("policy", "item", "symbol", "revision")} for one in reports]
        return said({"reports": rows, "epsilon": str(sum(self.policies[one.policy].epsilon for one in reports))})

    def _model(self, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if self.model is None:
            return problem(404, "no-model")
        etag = f'"{sha256(self.model).hexdigest()}"'
        if headers.get("if-none-match") == etag:
            return 304, {"ETag": etag}, b""
        assert "gzip" in headers["accept-encoding"]
        assert headers["accept"] == MEDIA_TYPE
        return 200, {"ETag": etag, "Content-Encoding": "gzip"}, gzip.compress(self.model)


def said(document: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


def problem(status: int, code: str, detail: str = "no", **headers: str) -> tuple[int, dict[str, str], bytes]:
    document = {"type": f"/problems/{code}", "title": code, "status": status, "detail": detail, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"Content-Type": "application/problem+json", **named}, json.dumps(document).encode()


@contextmanager
def served(provider: HonestProvider, *, encrypted: bool = False) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            provider.connections += 1
            super().setup()

        def finish(self) -> None:
            super().finish()
            provider.hung_up += 1

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            provider.askers.append((self.client_address[1], headers.get("authorization")))
            status, answered, content = provider.answer(self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in answered.items():
                self.send_header(name, value)
            if status not in {204, 304}:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - the server looks for these names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if encrypted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients hang up on purpose
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' * encrypted}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def provider() -> HonestProvider:
    return HonestProvider()


@pytest.fixture
def base_url(provider: HonestProvider) -> Iterator[str]:
    with served(provider) as address:
        yield address


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with Device(tmp_path / "ledger", lifetime_epsilon=5000) as made:
        yield made


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.account"


@pytest.fixture
def client(base_url: str, device: Device, token_file: Path) -> Iterator[Client]:
    with Client(base_url, device, token_file) as made:
        yield made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_WAIT", 0.001)


def token_in(file: Path) -> str:
    return str(json.loads(file.read_text())["token"])


# The way of a rating, against any provider that keeps to the contract.


def test_a_rating_arrives_as_its_report(client: Client, device: Device) -> None:
    policy = client.policy()
    assert device.policy is None
    assert client.consent(policy.id) == policy
    report = client.rate(17, 4)
    assert client.waiting() == [report]
    assert client.send().accepted == 1
    assert client.waiting() == []
    kept = client.stored()
    assert kept.reports == (report,)
    assert kept.epsilon == device.epsilon_spent == policy.epsilon


def test_sending_again_changes_nothing(client: Client, device: Device, token_file: Path) -> None:
    client.consent()
    client.rate("3", 5)
    client.send()
    assert client.send().accepted == 0
    before = token_file.read_bytes()
    account.save_account(token_file, account.Account(client._transport.base_url, token_in(token_file)))
    assert (client.send().accepted, client.send().duplicates) == (0, 0)
    assert token_file.read_bytes() == before
    assert len(client.stored().reports) == 1
    assert device.epsilon_spent == 1


def test_a_changed_rating_is_a_new_revision(client: Client) -> None:
    client.consent()
    first = client.rate("3", 5)
    client.send()
    second = client.rate("3", 1, change=True)
    assert client.waiting() == [second]
    assert client.send().accepted == 1
    assert set(client.stored().reports) == {first, second}


def test_lists_and_catalogue(client: Client) -> None:
    client.consent()
    client.rate(3, 5)
    client.send()
    assert client.items()[0].item
    assert len({one.item for one in client.items()}) == len(client.items())
    assert [one.rank for one in client.recommendations(3).items] == [1, 2, 3]
    ranking = client.rank_items()
    assert not ranking.fallback
    assert 3 not in {one.item for one in ranking.recommend(5)}


def test_everything_is_deleted(client: Client, device: Device, token_file: Path) -> None:
    client.consent()
    client.rate("1", 2)
    client.rate("2", 2)
    client.send()
    late = client.rate("4", 2)
    token = token_in(token_file)
    client.delete_everything()
    assert client.stored().reports == ()
    assert token not in token_file.read_text()
    assert device.policy is None
    with pytest.raises(ConsentError):
        client.rate("3", 2)
    client.consent()
    assert client.waiting() == []
    assert client.send().accepted == 0
    assert client.rate("4", 2) == late
    assert client.waiting() == [late]
    assert client.send().accepted == 1
    assert client.stored().reports == (late,)
    assert token_in(token_file) != token
    assert device.epsilon_spent == 3
    client.delete_everything()
    client.delete_everything()
    assert client.stored().reports == ()


# The same, with a look into the provider.


def test_batches_are_compact_of_at_most_1000_and_in_order_of_item(
    client: Client, device: Device, provider: HonestProvider
) -> None:
    client.consent()
    numbers = list(range(2300))
    np.random.default_rng(0).shuffle(numbers)
    device.spend(device.quote({number: 1 + number % 5 for number in numbers}))
    assert client.send().accepted == 2300
    batches = [decode_compact(body, provider.policies) for method, *_, body in provider.requests if method == "POST"]
    assert [len(batch) for batch in batches] == [1000, 1000, 300]
    assert [report for batch in batches for report in batch] == device.reports()
    assert len(device.reports()) == 2300


def test_only_what_needs_the_token_carries_it(client: Client, provider: HonestProvider, token_file: Path) -> None:
    client.consent()
    assert client.stored().reports == ()
    client.items()
    client.rank_items()
    assert not token_file.exists()
    assert all("authorization" not in headers for _, _, headers, _ in provider.requests)
    client.rate(1, 5)
    client.send()
    client.recommendations(1)
    signed = [target for _, target, headers, _ in provider.requests if "authorization" in headers]
    assert signed == ["/v1/reports", "/v1/recommendations?n=1"]
    assert all("cookie" not in headers for _, _, headers, _ in provider.requests)


def test_no_connection_shows_that_two_questions_are_one_devices(client: Client, provider: HonestProvider) -> None:
    for _ in range(2):
        client.consent()
        client.rate(1, 5)
        client.send()
        client.items()
        client.recommendations(1)
        client.rank_items()
        client.stored()
        client.delete_everything()
    askers = set(provider.askers)
    assert {token is None for _, token in askers} == {True, False}
    assert len(askers) == len({port for port, _ in askers}) == len({token for _, token in askers}) == 3
    assert provider.connections == 3
    client.close()
    end = time.monotonic() + 5
    while provider.hung_up < 3 and time.monotonic() < end:
        time.sleep(0.01)
    assert provider.hung_up == 3


def test_a_connection_is_opened_when_it_is_needed_and_fails_alone(client: Client, provider: HonestProvider) -> None:
    client.policy()
    assert provider.connections == 1
    client.recommendations(1)
    assert provider.connections == 2
    provider.failures = [(200, {"Content-Encoding": "br"}, b"x")]
    with pytest.raises(ProviderError, match="compresses"):
        client.policy()
    client.recommendations(1)
    assert provider.connections == 2
    client.policy()
    assert provider.connections == 3


def test_the_token_is_for_nobody_else(client: Client, token_file: Path) -> None:
    client.consent()
    client.rate(1, 5)
    client.send()
    assert token_file.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(token_in(token_file))) == 16
    token_file.chmod(0o640)
    with pytest.raises(DeviceError, match="chmod 600"):
        client.send()


def test_the_token_is_not_shown_to_another_provider(client: Client, device: Device, token_file: Path) -> None:
    client.consent()
    client.rate(1, 5)
    client.send()
    other = HonestProvider()
    with served(other) as elsewhere, Client(elsewhere, device, token_file) as stranger:
        for call in (stranger.send, stranger.recommendations, stranger.stored, stranger.delete_everything):
            with pytest.raises(DeviceError, match="another file"):
                call()
        assert other.requests == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format":"tacit-account/1","provider":"x","token":"short","acknowledged":{},"withdrawn":{}}',
        b'{"format":"tacit-account/1","provider":"x","token":null,"acknowledged":{"1":true},"withdrawn":{}}',
        b'{"format":"tacit-account/1","provider":"x","token":null,"acknowledged":[],"withdrawn":{}}',
        b'{"format":"tacit-account/2","provider":"x","token":null,"acknowledged":{},"withdrawn":{}}',
    ],
)
def test_a_damaged_account_is_refused_and_costs_nothing(
    client: Client, device: Device, token_file: Path, content: bytes
) -> None:
    client.consent()
    token_file.touch(mode=0o600)
    token_file.write_bytes(content)
    with pytest.raises(DeviceError) as caught:
        client.stored()
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(DeviceError):
        client.rate(1, 5)
    assert device.epsilon_spent == 0


def test_what_was_acknowledged_is_known_after_a_restart(
    client: Client, base_url: str, device: Device, token_file: Path, provider: HonestProvider
) -> None:
    client.consent()
    client.rate(1, 5)
    client.send()
    provider.requests.clear()
    with Client(base_url, device, token_file) as again:
        assert again.waiting() == []
        assert again.send().accepted == 0
    assert provider.requests == []


def test_a_crash_after_the_answer_only_means_sending_again(
    client: Client, monkeypatch: pytest.MonkeyPatch, provider: HonestProvider
) -> None:
    client.consent()
    client.rate(1, 5)

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(account.Account, "acknowledging", stopped)
    with pytest.raises(KeyboardInterrupt):
        client.send()
    monkeypatch.undo()
    assert len(client.waiting()) == 1
    sent = client.send()
    assert (sent.accepted, sent.duplicates) == (0, 1)
    assert len(provider.devices) == 1


def test_the_token_is_on_disk_before_it_is_sent(
    client: Client, monkeypatch: pytest.MonkeyPatch, provider: HonestProvider
) -> None:
    client.consent()
    client.rate(1, 5)
    asked = len(provider.requests)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tacit.device.account.os.fsync", full)
    monkeypatch.setattr("tacit.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        client.send()
    assert len(provider.requests) == asked


def test_rejected_reports_wait_until_the_provider_knows_the_item(client: Client, provider: HonestProvider) -> None:
    client.consent()
    client.rate("1", 5)
    strange = client.rate("a new film", 5)
    client.rate("2", 5)
    sent = client.send()
    assert sent.accepted == 2
    assert [(one.item, one.code) for one in sent.rejected] == [("a new film", "unknown-item")]
    assert client.waiting() == [strange]
    provider.catalogue["a new film"] = "A New Film"
    assert client.send().accepted == 1
    assert client.waiting() == []


def test_the_catalogue_comes_in_pages(client: Client, provider: HonestProvider) -> None:
    provider.catalogue["x&y=z ?"] = "Odd\x1b[31m\nname"
    provider.page = 5001
    provider.catalogue["last"] = "Last"
    found = client.items()
    assert len(found) == 5002
    assert found[0] == ListedItem("0", "Film 0")
    assert found[-2] == ListedItem("x&y=z ?", "Odd [31m name")
    assert len(provider.requests) == 2


def test_recommendations_are_as_said(client: Client) -> None:
    found = client.recommendations(2)
    assert found.items == (Recommendation("0", 4.5, 1), Recommendation("1", 3.5, 2))
    assert (found.fallback, found.reason, found.run) == (False, "reports", 3)
    for count in (0, -1, 1001):
        with pytest.raises(DeviceError):
            client.recommendations(count)


# Policies that change.


def test_a_changed_policy_is_not_obeyed_without_consent(
    client: Client, device: Device, provider: HonestProvider
) -> None:
    client.consent()
    first = client.rate("1", 5)
    provider.policies[ONE_BIT.id], provider.current = ONE_BIT, ONE_BIT
    assert client.policy() == ONE_BIT
    second = client.rate("2", 5)
    assert (first.policy, second.policy) == (LAPLACE.id, LAPLACE.id)
    assert client.send().accepted == 2
    with pytest.raises(PolicyError, match=ONE_BIT.id):
        client.consent(LAPLACE.id)
    assert device.policy == LAPLACE
    client.consent(ONE_BIT.id)
    assert client.rate("3", 5).policy == ONE_BIT.id
    assert client.rate("1", 5) == first


def test_reports_under_several_policies_go_in_batches_of_one(client: Client, provider: HonestProvider) -> None:
    client.consent()
    first = client.rate("1", 5)
    provider.policies[ONE_BIT.id], provider.current = ONE_BIT, ONE_BIT
    client.consent()
    second = client.rate("2", 5)
    assert client.send().accepted == 2
    assert set(client.stored().reports) == {first, second}
    assert [target for _, target, *_ in provider.requests].count(f"/v1/policies/{LAPLACE.id}") == 1


def test_reports_under_a_policy_that_is_gone_are_counted_and_kept(client: Client, provider: HonestProvider) -> None:
    client.consent()
    first = client.rate("1", 5)
    provider.policies, provider.current = {ONE_BIT.id: ONE_BIT}, ONE_BIT
    assert client.send().unsendable == 1
    client.consent()
    client.rate("2", 5)
    sent = client.send()
    assert (sent.accepted, sent.unsendable) == (1, 1)
    assert client.waiting() == [first]


def test_another_policy_under_an_earlier_id_is_refused(client: Client, provider: HonestProvider) -> None:
    client.consent()
    client.rate("1", 5)
    provider.current = ONE_BIT
    client.consent()
    provider.policies[LAPLACE.id] = Policy.make("bounded-laplace", STARS, "20")
    with pytest.raises(PolicyError, match="refused"):
        client.send()
    assert not [method for method, *_ in provider.requests if method == "POST"]


REFUSED = json.loads((PROTOCOL / "vectors/refused-policies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector["why"])
def test_a_policy_that_does_not_hold_is_refused(
    client: Client, device: Device, provider: HonestProvider, vector: dict[str, Any]
) -> None:
    provider.failures = [(200, {}, vector["document"].encode())] * 2
    with pytest.raises(InvalidInputError):
        client.policy()
    with pytest.raises(InvalidInputError):
        client.consent()
    assert device.policy is None


def test_a_policy_that_lies_about_its_loss_is_named_so(client: Client, provider: HonestProvider) -> None:
    lies = next(vector["document"] for vector in REFUSED if vector["why"] == "a ratio above e^epsilon")
    provider.failures = [(200, {}, lies.encode())]
    with pytest.raises(PrivacyClaimError):
        client.consent()


# Item models.


def test_an_item_model_is_fetched_once(client: Client, provider: HonestProvider) -> None:
    client.consent()
    client.rate(3, 5)
    first, second = client.rank_items(), client.rank_items()
    assert second.items is first.items
    assert second.scores.tolist() == first.scores.tolist()
    provider.model = encode_items(item_model(seed=1))
    assert client.rank_items().scores.tolist() != first.scores.tolist()
    assert [
        headers.get("if-none-match") is None for _, target, headers, _ in provider.requests if "model" in target
    ] == [
        True,
        False,
        False,
    ]


def test_an_item_model_on_another_scale_is_refused(client: Client, provider: HonestProvider) -> None:
    client.consent()
    provider.model = encode_items(item_model(RatingScale.parse("0.5:5:0.5")))
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"0\.5:5:0\.5"):
            client.rank_items()


def test_no_model_is_said_so(client: Client, provider: HonestProvider) -> None:
    provider.model = None
    with pytest.raises(ProviderError) as caught:
        client.rank_items()
    assert (caught.value.code, caught.value.status, caught.value.detail) == ("no-model", 404, "no")


@pytest.mark.parametrize("etag", ["", '"', 'x"y"', '"a b"', '"' + "x" * 300 + '"', '"\x80"'])
def test_an_odd_etag_is_not_sent_back(client: Client, provider: HonestProvider, etag: str) -> None:
    assert provider.model is not None
    provider.failures = [(200, {"ETag": etag}, provider.model)]
    client.rank_items()
    client.rank_items()
    assert "if-none-match" not in provider.requests[-1][2]


@pytest.mark.parametrize(
    "vector", json.loads((PROTOCOL / "vectors/refused-items.json").read_text())[:6], ids=lambda vector: vector["why"]
)
def test_a_damaged_item_model_is_refused(client: Client, provider: HonestProvider, vector: dict[str, str]) -> None:
    provider.model = base64.b64decode(vector["wire"])
    with pytest.raises(ModelError):
        client.rank_items()


# Patience.


def test_a_connection_is_kept(client: Client, provider: HonestProvider) -> None:
    for _ in range(5):
        client.policy()
    assert provider.connections == 1
    client.close()
    client.policy()
    assert provider.connections == 2


def test_retry_after_is_honoured(client: Client, provider: HonestProvider) -> None:
    client.consent()
    client.rate(1, 5)
    provider.failures = [problem(503, "busy", Retry_After="1"), problem(429, "too-many-requests")]
    started = time.monotonic()
    assert client.send().accepted == 1
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("after", ["31", "9" * 5000, "86400"])
def test_a_long_wait_is_left_to_the_caller(client: Client, provider: HonestProvider, after: str) -> None:
    client.consent()
    report = client.rate(1, 5)
    provider.failures = [problem(429, "too-many-requests", Retry_After=after)] * 9
    started = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        client.send()
    assert (caught.value.code, len(provider.failures)) == ("too-many-requests", 8)
    assert time.monotonic() - started < 1
    assert client.waiting() == [report]


@pytest.mark.parametrize("after", ["-1", "soon", "Wed, 21 Oct 2037 07:28:00 GMT", "1e9", "\u00b2"])
def test_attempts_are_counted(client: Client, provider: HonestProvider, after: str) -> None:
    provider.failures = [problem(503, "busy", Retry_After=after)] * 9
    with pytest.raises(ProviderError, match="busy"):
        client.policy()
    assert len(provider.failures) == 9 - transport.MOST_ATTEMPTS


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_a_refusal_is_final(client: Client, provider: HonestProvider, status: int) -> None:
    provider.failures = [problem(status, "refused", "because")] * 2
    with pytest.raises(ProviderError) as caught:
        client.policy()
    assert (caught.value.code, caught.value.detail, caught.value.status) == ("refused", "because", status)
    assert len(provider.failures) == 1


def test_a_provider_that_is_gone_is_unreachable(client: Client, device: Device, token_file: Path) -> None:
    client.consent()
    client.rate(1, 5)
    client.send()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    account.save_account(token_file, account.Account(nobody, "0" * 32))
    gone = Client(nobody, device, token_file)
    for call in (gone.policy, gone.send, gone.delete_everything):
        with pytest.raises(ProviderError) as caught:
            call()
        assert caught.value.code == "unreachable"
    assert token_in(token_file) == "0" * 32
    assert device.policy is not None


# Hostile providers: raw bytes on a socket.


@contextmanager
def hostile(act: Callable[[socket.socket, int], None]) -> Iterator[str]:
    """Let something answer every request; it gets the socket, and how many requests there were before."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    counter = iter(range(10**6))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    more = connection.recv(2**16)
                    if not more:
                        return
                    received += more
                received = b""
                act(connection, next(counter))

    def accept() -> None:
        while not ended.is_set():
            with suppress(OSError):
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        with suppress(OSError):
            socket.create_connection(listener.getsockname()).close()
        thread.join()
        listener.close()


def sends(*parts: bytes, pause: float = 0.0, close: bool = False) -> Callable[[socket.socket, int], None]:
    def act(connection: socket.socket, _number: int) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        if close:
            connection.shutdown(socket.SHUT_RDWR)

    return act


def repeats(first: bytes, part: bytes, pause: float = 0.0) -> Callable[[socket.socket, int], None]:
    """Answer without an end; the client's hanging up ends it."""

    def act(connection: socket.socket, _number: int) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(part)
            time.sleep(pause)

    return act


OK = b"HTTP/1.1 200 OK\r\n"
BOMB = gzip.compress(bytes(2**27))


@pytest.mark.parametrize(
    ("act", "code"),
    [
        pytest.param(sends(OK + b"Content-Length: 99999999999\r\n\r\n"), "too-large", id="a huge length"),
        pytest.param(repeats(OK + b"\r\n", b"x" * 2**20), "too-large", id="an endless body"),
        pytest.param(
            repeats(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + b"x" * 2**20 + b"\r\n"),
            "too-large",
            id="endless chunks",
        ),
        pytest.param(
            sends(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB),
            "too-large",
            id="a bomb",
        ),
        pytest.param(sends(OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx"), "unusable", id="not gzip"),
        pytest.param(sends(OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"), "unusable", id="no gzip"),
        pytest.param(sends(OK + b"X: " + b"x" * 2**17 + b"\r\n\r\n"), "unusable", id="a long header"),
        pytest.param(sends(OK + b"X: x\r\n" * 200 + b"\r\n"), "unusable", id="many headers"),
        pytest.param(repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001), "too-slow", id="go on, go on"),
        pytest.param(repeats(OK + b"Content-Length: 1000\r\n\r\n", b"x", 0.05), "too-slow", id="a drip"),
        pytest.param(repeats(b"HTTP/1.1 200 ", b"O", 0.05), "too-slow", id="a drip of a status"),
        pytest.param(repeats(OK, b"X: x\r\n", 0.05), "too-slow", id="a drip of headers"),
        pytest.param(
            repeats(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: x\r\n", 0.001), "too-slow", id="trailers"
        ),
        pytest.param(sends(b"", pause=2), "too-slow", id="silence"),
        pytest.param(sends(b"SSH-2.0-OpenSSH\r\n", close=True), "unusable", id="not HTTP"),
        pytest.param(sends(OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), "unreachable", id="no chunks"),
        pytest.param(sends(b"", close=True), "unreachable", id="hung up"),
        pytest.param(sends(OK + b"Content-Length: 10\r\n\r\nx", close=True), "unreachable", id="broken off"),
        pytest.param(sends(b"HTTP/1.1 204 No Content\r\n\r\n"), None, id="nothing"),
    ],
)
def test_hostile_answers_are_cut_off(
    device: Device, token_file: Path, act: Callable[[socket.socket, int], None], code: str | None
) -> None:
    with hostile(act) as address, Client(address, device, token_file, seconds=0.5) as client:
        started = time.monotonic()
        if code is None:
            with pytest.raises(PolicyError):
                client.policy()
        else:
            with pytest.raises(ProviderError) as caught:
                client.policy()
            assert caught.value.code == code
            assert len(str(caught.value).splitlines()) == 1
        assert time.monotonic() - started < 4
    assert device.policy is None


def test_a_redirect_is_not_followed(device: Device, token_file: Path, provider: HonestProvider) -> None:
    with served(provider) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            where = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere}/v1/policy\r\nContent-Length: 0\r\n\r\n"
            with hostile(sends(where.encode())) as address, Client(address, device, token_file) as client:
                with pytest.raises(ProviderError) as caught:
                    client.policy()
                assert caught.value.status == status
    assert provider.requests == []


def test_a_connection_closed_between_requests_is_made_again(device: Device, token_file: Path) -> None:
    content = LAPLACE.to_json()
    answer = OK + b"Content-Length: %d\r\n\r\n" % len(content) + content

    def act(connection: socket.socket, _number: int) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    with hostile(act) as address, Client(address, device, token_file) as client:
        for _ in range(3):
            assert client.policy() == LAPLACE


ANSWERS: dict[str, Any] = {
    "no object": [],
    "no fields": {},
    "too many accepted": {"accepted": 3, "duplicates": 0, "rejected": []},
    "too few": {"accepted": 1, "duplicates": 0, "rejected": []},
    "negative": {"accepted": 3, "duplicates": -1, "rejected": []},
    "not whole": {"accepted": 2.0, "duplicates": 0, "rejected": []},
    "true": {"accepted": True, "duplicates": 1, "rejected": []},
    "beyond the batch": {"accepted": 1, "duplicates": 0, "rejected": [{"index": 2, "code": "unknown-item"}]},
    "twice": {"accepted": 1, "duplicates": 0, "rejected": [{"index": 0, "code": "unknown-item"}] * 2},
    "no code": {"accepted": 1, "duplicates": 0, "rejected": [{"index": 0}]},
    "a code for the terminal": {"accepted": 1, "duplicates": 0, "rejected": [{"index": 0, "code": "\x1b[2J"}]},
    "rejections that are none": {"accepted": 1, "duplicates": 0, "rejected": [1]},
}


@pytest.mark.parametrize("document", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_does_not_account_for_the_batch_acknowledges_nothing(
    client: Client, provider: HonestProvider, document: Any
) -> None:
    client.consent()
    client.rate(1, 5)
    client.rate(2, 5)
    provider.failures = [said(document)]
    with pytest.raises(ProviderError):
        client.send()
    assert len(client.waiting()) == 2
    assert client.send().accepted == 2


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 10**5, b'{"a":1,"a":2}', b'"text"', b"1" * 5000])
def test_answers_that_are_no_documents_are_refused(client: Client, provider: HonestProvider, content: bytes) -> None:
    client.consent()
    client.rate(1, 5)
    for call in (client.send, client.items, client.recommendations, client.stored):
        provider.failures = [(200, {}, content)]
        with pytest.raises(ProviderError) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1


def test_what_everybody_gets_has_no_score(client: Client, provider: HonestProvider) -> None:
    rows = [{"item": "1", "score": None, "rank": 1}]
    provider.failures = [said({"items": rows, "fallback": True, "reason": "cold-start", "run": None})]
    found = client.recommendations(1)
    assert found.items == (Recommendation("1", None, 1),)
    assert (found.fallback, found.reason, found.run) == (True, "cold-start", None)


@pytest.mark.parametrize(
    "row",
    [
        {"item": "1", "score": 1e999, "rank": 1},
        {"item": "1", "score": "4", "rank": 1},
        {"item": "1", "score": 10**400, "rank": 1},
        {"item": "", "score": 4.0, "rank": 1},
        {"item": 7, "score": 4.0, "rank": 1},
        {"item": "\ud800", "score": 4.0, "rank": 1},
        {"item": "x" * 201, "score": 4.0, "rank": 1},
        {"item": "1", "score": 4.0},
    ],
)
def test_recommendations_that_are_none_are_refused(
    client: Client, provider: HonestProvider, row: dict[str, Any]
) -> None:
    provider.failures = [said({"items": [row], "fallback": False, "reason": "reports", "run": None})]
    with pytest.raises(ProviderError):
        client.recommendations()


@pytest.mark.parametrize(
    "document",
    [
        {"reports": [{"policy": "x", "item": "1", "symbol": 1, "revision": 0}], "epsilon": "1"},
        {"reports": [{"policy": LAPLACE.id, "item": "1", "symbol": 5000, "revision": 0}], "epsilon": "1"},
        {"reports": [], "epsilon": "1e5"},
        {"reports": [], "epsilon": 1},
    ],
)
def test_a_store_that_makes_no_sense_is_refused(client: Client, provider: HonestProvider, document: Any) -> None:
    client.recommendations(1)
    provider.failures = [said(document)]
    with pytest.raises(ProviderError):
        client.stored()


def test_a_catalogue_without_an_end_is_refused(
    client: Client, provider: HonestProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = said({"items": [{"item": "1", "title": "x"}], "next": "1", "total": 1})
    monkeypatch.setattr("tacit.device.published.MOST_PAGES", 20)
    provider.failures = [page] * 50
    with pytest.raises(ProviderError, match="20 pages"):
        client.items()
    monkeypatch.setattr("tacit.device.published.LARGEST_CATALOGUE", 3 * len(page[2]))
    with pytest.raises(ProviderError) as caught:
        client.items()
    assert caught.value.code == "too-large"


def test_nothing_that_is_printed_shows_a_rating_or_the_token(
    client: Client, provider: HonestProvider, token_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    client.consent()
    client.rate("1", 5)
    client.send()
    token = token_in(token_file)
    kept = account.load_account(token_file, client._transport.base_url)
    shown = [repr(client), repr(kept), str(kept)]
    for spelled in (token, token.upper(), f"x{token}y\x1b[2J\nsecond line " + "z" * 1000):
        provider.failures = [problem(401, "unauthorised", f"token {spelled}")]
        with pytest.raises(ProviderError) as caught:
            client.recommendations()
        assert "\x1b" not in str(caught.value)
        assert len(caught.value.detail) <= 200
        assert len(str(caught.value).splitlines()) == 1
        shown += [str(caught.value), repr(caught.value), caught.value.detail]
    assert not [text for text in shown if token in text.lower()]
    assert capfd.readouterr() == ("", "")


# Addresses.


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@example.org",
        "https://example.org?x=1",
        "https://example.org/?",
        "https://example.org#part",
        "https://example.org:port",
        "https://example.org:99999",
        "https://exa mple.org",
        "https://example.org\r\nX: x",
        "https://ex\u00e4mple.org",
        "https://[::1",
        "https://example.org\\@other.org",
        "http://example.org",
        "http://10.0.0.1",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
    ],
)
def test_addresses_that_are_none_or_not_encrypted_are_refused(device: Device, token_file: Path, address: str) -> None:
    with pytest.raises(DeviceError) as caught:
        Client(address, device, token_file)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "address", ["http://localhost:8000", "http://127.0.0.7/", "http://[::1]:80", "https://example.org/tacit/"]
)
def test_addresses_that_are_good(device: Device, token_file: Path, address: str) -> None:
    Client(address, device, token_file).close()


def test_plain_http_elsewhere_only_if_told_so(device: Device, token_file: Path) -> None:
    Client("http://10.0.0.1", device, token_file, plain_http=True).close()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(device: Device, token_file: Path, seconds: float) -> None:
    with pytest.raises(DeviceError, match="seconds"):
        Client("https://example.org", device, token_file, seconds=seconds)


def test_a_provider_may_live_under_a_path(
    base_url: str, device: Device, token_file: Path, provider: HonestProvider
) -> None:
    with Client(base_url + "/some/where/", device, token_file) as client, pytest.raises(ProviderError):
        client.policy()
    assert provider.requests[0][1] == "/some/where/v1/policy"


def test_certificates_are_verified(device: Device, token_file: Path, provider: HonestProvider) -> None:
    with served(provider, encrypted=True) as address:
        with Client(address, device, token_file) as client, pytest.raises(ProviderError, match="cannot be trusted"):
            client.consent()
        assert provider.requests == []
        with Client(address, device, token_file, authority=CERTIFICATE) as client:
            client.consent()
            client.rate(1, 4)
            assert client.send().accepted == 1
            assert client.stored().epsilon == Decimal(1)
    with pytest.raises(DeviceError, match="PEM"):
        Client("https://example.org", device, token_file, authority=token_file.with_name("nothing"))


def test_importing_tacit_does_not_load_the_network() -> None:
    code = "import sys, tacit.device; print([name for name in ('http', 'ssl', 'socket') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
