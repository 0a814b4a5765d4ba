"""What a hostile device, a stranger on the network or a page in another tab tries; every attempt is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import random
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tacit.privacy.compact import encode_compact
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, encode_json
from tacit.privacy.scale import RatingScale
from tacit.provider.service import RateLimits, Settings, connections
from tacit.provider.service.collecting import Collector
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.runs import RunStore
from tacit.provider.store.writing import GroupWriter, Said
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient

    Headers = dict[str, str]
    DeviceHeaders = Callable[[int], Headers]
    OnLoopback = Callable[..., AbstractContextManager[int]]

JSON = {"Content-Type": "application/json"}
COMPACT = {"Content-Type": "application/vnd.tacit.reports"}
OPERATOR = "an-operator-of-tests"
TOKEN = "c0ffee" + 26 * "0"
LIMIT = 2**19
PATIENCE = 20.0


def batch(policy: Policy, *said: tuple[str, int, int]) -> bytes:
    return encode_json([Report(policy.id, *one) for one in said])


def said_by(client: TestClient, device: Headers) -> list[tuple[str, int, int]]:
    kept = client.get("/v1/devices/me", headers=device).json()["reports"]
    return [(one["item"], one["symbol"], one["revision"]) for one in kept]


def assert_problem(answer: Any, *statuses: int) -> None:
    assert answer.status_code in statuses
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code


@dataclass(frozen=True)
class Heard:
    """What came back on a connection until it was closed or the answer was complete."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Live:
    """A service on a real socket, asked in bytes."""

    port: int
    store: ReportStore

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            yield connection

    def say(self, *parts: bytes) -> Heard:
        with self.connected() as connection:
            for part in parts:
                connection.sendall(part)
            return heard(connection, with_body=not parts[0].startswith(b"HEAD"))

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Heard:
        """Send a whole request; underscores in the names of headers stand for hyphens."""
        stated = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in (stated | named).items())]
        return self.say("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def heard(connection: socket.socket, *, with_body: bool = True) -> Heard:
    """Read one answer."""
    content = b""
    while b"\r\n\r\n" not in content:
        content += _more(connection)
    head, _, body = content.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while with_body and len(body) < int(headers.get("content-length", 0)):
        body += _more(connection)
    return Heard(int(first.split()[1]), headers, body)


def _more(connection: socket.socket) -> bytes:
    got = connection.recv(65536)
    if not got:
        raise EOFError
    return got


def until_closed(connection: socket.socket, part: bytes, most: int) -> int:
    """Send the same again and again; return how often it could be sent."""
    for times in range(most):
        try:
            connection.sendall(part)
        except ConnectionError:
            return times
    return most


@pytest.fixture(scope="module")
def live(policy: Policy, tmp_path_factory: pytest.TempPathFactory, on_loopback: OnLoopback) -> Iterator[Live]:
    """One service for all attacks that must leave it as it was."""
    folder = tmp_path_factory.mktemp("live")
    store = ReportStore.open(f"sqlite:///{folder / 'tacit.db'}")
    store.adopt(policy)
    store.put_items([Item(str(number), f"Title {number}") for number in range(100)])
    trainer = Trainer(store, RunStore(store.database), folder / "models")
    with on_loopback(store, trainer, Settings(body_seconds=0.5, limits=RateLimits(0, 0, 0))) as port:
        asking = Live(port, store)
        yield asking
        assert asking.ask("GET", "/health/ready").status == 200  # whatever was tried, it still answers
    store.close()


class TestOtherPeoplesDevices:
    def test_a_token_reads_deletes_and_overwrites_its_own_only(
        self, client: TestClient, device: DeviceHeaders, policy: Policy
    ) -> None:
        client.post("/v1/reports", content=batch(policy, ("1", 3, 0)), headers=JSON | device(1))
        assert_problem(client.get("/v1/devices/me", headers=device(2)), 404)
        assert client.delete("/v1/devices/me", headers=device(2)).status_code == 204
        client.post("/v1/reports", content=batch(policy, ("1", 9, 0)), headers=JSON | device(2))
        assert said_by(client, device(1)) == [("1", 3, 0)]
        assert said_by(client, device(2)) == [("1", 9, 0)]
        client.delete("/v1/devices/me", headers=device(2))
        assert said_by(client, device(1)) == [("1", 3, 0)]

    @pytest.mark.parametrize(
        "path", ["/v1/devices", "/v1/devices/1", "/v1/devices/me/", "/v1/devices/ME", f"/v1/devices/{1:032x}"]
    )
    def test_no_address_leads_to_another(self, client: TestClient, device: DeviceHeaders, path: str) -> None:
        for method in ("GET", "DELETE"):
            assert_problem(client.request(method, path, headers=device(2), follow_redirects=False), 404)

    def test_the_hash_of_a_token_is_no_token(
        self, client: TestClient, store: ReportStore, device: DeviceHeaders, policy: Policy
    ) -> None:
        client.post("/v1/reports", content=batch(policy, ("1", 3, 0)), headers=JSON | device(1))
        with store.database.reading() as connection:
            (kept,) = connection.exec_driver_sql("SELECT token_hash FROM devices").scalars()
        assert f"{1:032x}" not in bytes(kept).hex()
        for stolen in (bytes(kept).hex(), bytes(kept).hex()[:32], bytes(kept).hex()[32:]):
            assert client.get("/v1/devices/me", headers={"Authorization": f"Bearer {stolen}"}).status_code in {401, 404}


class TestTokens:
    @pytest.mark.parametrize(
        "token",
        [
            "",
            TOKEN[:-1],
            TOKEN + "0",
            TOKEN.upper(),
            "g" * 32,
            TOKEN[:-1] + "\xe9",
            TOKEN[:-1] + " ",
            TOKEN + "\xa0",
            "\xa0" + TOKEN,
            TOKEN + ";",
            f"{TOKEN}, {TOKEN}",
            "0" * 100_00,
            "' OR '1'='1",
            "../../etc/passwd",
            "null",
            "*",
            "%",
            OPERATOR,
        ],
    )
    def test_what_is_no_devices_token_opens_nothing(self, live: Live, token: str) -> None:
        for method, path in [
            ("GET", "/v1/devices/me"),
            ("DELETE", "/v1/devices/me"),
            ("GET", "/v1/recommendations"),
            ("POST", "/v1/reports"),
        ]:
            answer = live.ask(method, path, Authorization=f"Bearer {token}")
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert len(token) < 2 or token.encode("latin-1") not in answer.body

    @pytest.mark.parametrize(
        "header", ["Basic YTpi", "Bearer", "Token x", TOKEN, f"BearerX {TOKEN}", f"Digest {TOKEN}", ""]
    )
    def test_nothing_but_a_bearer_token_counts(self, live: Live, header: str) -> None:
        assert live.ask("GET", "/v1/devices/me", Authorization=header).status == 401
        assert live.ask("GET", "/v1/stats", Authorization=header).status == 401

    def test_a_token_elsewhere_than_in_its_header_counts_for_nothing(self, live: Live) -> None:
        for path in (f"/v1/devices/me?access_token={TOKEN}", f"/v1/devices/me?token={TOKEN}"):
            assert live.ask("GET", path, Cookie=f"token={TOKEN}", X_Forwarded_User=TOKEN).status == 401

    def test_two_tokens_at_once_are_none(self, live: Live) -> None:
        tokens = f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN[::-1]}"
        head = f"GET /v1/devices/me HTTP/1.1\r\nHost: x\r\n{tokens}\r\n\r\n"
        assert live.say(head.encode()).status == 401

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/v1/items"),
            ("POST", "/v1/training-runs"),
            ("GET", "/v1/training-runs"),
            ("GET", "/v1/training-runs/1"),
            ("GET", "/v1/training-runs/1/log"),
            ("GET", "/v1/stats"),
        ],
    )
    def test_the_operators_doors_open_to_the_operator_only(self, live: Live, method: str, path: str) -> None:
        body = json.dumps({"items": [{"item": "forged", "title": ""}]}).encode() if path == "/v1/items" else b""
        for token, status in [(TOKEN, 403), (OPERATOR[:-1], 401), (OPERATOR + "x", 401), (OPERATOR.upper(), 401)]:
            answer = live.ask(method, path, body, Content_Type="application/json", Authorization=f"Bearer {token}")
            assert answer.status == status
            assert token.encode() not in answer.body
        assert live.ask(method, path, body, Content_Type="application/json").status == 401
        assert live.store.count("items") == 100
        assert live.store.count("runs") == 0

    def test_guesses_are_slowed_down_and_the_operator_is_not(
        self, store: ReportStore, serving: Callable[..., TestClient], admin: Headers
    ) -> None:
        with serving(store, Settings(limits=RateLimits(guesses=5))) as client:
            codes = [
                client.get("/v1/stats", headers={"Authorization": f"Bearer {OPERATOR}{guess}"}).status_code
                for guess in range(8)
            ]
            assert codes == [401] * 5 + [429] * 3
            assert client.get("/v1/stats", headers=admin).status_code == 200


class TestReplays:
    def test_sent_again_and_in_any_order_the_first_counts(
        self, client: TestClient, device: DeviceHeaders, policy: Policy
    ) -> None:
        sent = [("1", 3, 0), ("2", 4, 0), ("1", 7, 1), ("3", 5, 0), ("2", 9, 2)]
        client.post("/v1/reports", content=batch(policy, *sent), headers=JSON | device(1))
        rng = random.Random(5)
        for _ in range(10):
            again = [(item, rng.randrange(60), revision) for item, _, revision in rng.sample(sent, 4)]
            answer = client.post("/v1/reports", content=batch(policy, *again), headers=JSON | device(1)).json()
            assert (answer["accepted"], answer["duplicates"]) == (0, 4)
        assert sorted(said_by(client, device(1))) == sorted(sent)

    def test_the_noise_of_a_report_cannot_be_averaged_away(
        self, store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders, policy: Policy
    ) -> None:
        other = Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2")
        store.adopt(other)
        with serving(store) as client:
            for symbol in range(5):
                for used in (policy, other):
                    compact = encode_compact([Report(used.id, "1", symbol, 0)], used)
                    client.post("/v1/reports", content=compact, headers=COMPACT | device(1))
                    client.post("/v1/reports", content=batch(used, ("1", symbol, 0)), headers=JSON | device(1))
            assert said_by(client, device(1)) == [("1", 0, 0)]
            assert client.get("/v1/devices/me", headers=device(1)).json()["epsilon"] == "1"

    def test_a_batch_that_waits_is_not_stored_after_its_device_was_deleted(
        self, store: ReportStore, policy: Policy
    ) -> None:
        async def race() -> None:
            collector = Collector(GroupWriter(store.database, 100))
            mine = Batch(b"m" * 32, 1, policy.channel.weights.symbols, [Said("1", 3, 0)])
            before = [asyncio.create_task(collector.submit(mine)) for _ in range(3)]
            await asyncio.sleep(0)
            deleting = asyncio.create_task(collector.delete_device(mine.token_hash))
            await asyncio.sleep(0)
            collector.start()
            await asyncio.gather(*before, deleting)
            await collector.stop()

        asyncio.run(race())
        assert (store.count("devices"), store.count("reports")) == (0, 0)


SMUGGLED = [
    {"epsilon": "100"},
    {"ratings": {"1": 5}},
    {"rating": 5},
    {"device": "x"},
    {"token": TOKEN},
    {"format": "tacit-reports/2"},
    {"policy": None},
    {"policy": ["x"]},
    {"reports": []},
    {"reports": {}},
    {"reports": None},
    {"reports": [None]},
    {"reports": [["1", 3, 0]]},
    {"reports": [{"item": "1", "symbol": 3}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": 0, "rating": 5}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": 0, "epsilon": "9"}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": 0, "policy": "x"}]},
    {"reports": [{"item": 1, "symbol": 3, "revision": 0}]},
    {"reports": [{"item": "", "symbol": 3, "revision": 0}]},
    {"reports": [{"item": "x" * 201, "symbol": 3, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": "3", "revision": 0}]},
    {"reports": [{"item": "1", "symbol": True, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": 3.5, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": -1, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": 4096, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": 10**40, "revision": 0}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": -1}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": 2**31}]},
    {"reports": [{"item": "1", "symbol": 3, "revision": None}]},
    {"reports": [{"item": str(number), "symbol": 3, "revision": 0} for number in range(1001)]},
]


class TestBodies:
    @pytest.mark.parametrize("change", SMUGGLED, ids=lambda change: json.dumps(change)[:60])
    def test_what_no_device_says_is_refused_whole(self, live: Live, policy: Policy, change: dict[str, Any]) -> None:
        good = [{"item": "1", "symbol": 3, "revision": 0}]
        document = {"format": "tacit-reports/1", "policy": policy.id, "reports": good} | change
        if change.get("reports"):
            document["reports"] = (
                [*good, *change["reports"]] if isinstance(change["reports"], list) else change["reports"]
            )
        self.refused(live, json.dumps(document).encode(), 400)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\0",
            b"{",
            b"null",
            b"[]",
            b"NaN",
            b"\xef\xbb\xbf{GOOD}",
            b"{GOOD}{GOOD}",
            b"{GOOD}\0",
            b'{"format":"tacit-reports/1",GOOD}',
            b'{GOOD,"reports":[]}',
            b'{"policy":"x",GOOD}',
            b"\xff\xfe{}",
            b'{"format":"\xff"}',
            b"[" * 200_000,
            b'{"a":' * 80_000,
            b"9" * 100_000,
            b"1e" + b"9" * 1000,
            b"tcr\x01",
        ],
        ids=lambda body: repr(body[:30]),
    )
    def test_what_is_not_one_document_is_refused(self, live: Live, policy: Policy, body: bytes) -> None:
        self.refused(
            live,
            body.replace(b"{GOOD", batch(policy, ("1", 3, 0))[:-1]).replace(b"GOOD}", batch(policy, ("1", 3, 0))[1:]),
            400,
        )

    @pytest.mark.parametrize(
        "number",
        [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"3.0000001", b"9" * 4000, b"9" * 5000, b"0x3", b"03", b"+3"],
    )
    def test_numbers_that_are_none_are_refused(self, live: Live, policy: Policy, number: bytes) -> None:
        self.refused(live, batch(policy, ("1", 3, 0)).replace(b'"symbol":3', b'"symbol":' + number), 400)

    @pytest.mark.parametrize(
        "item",
        ["\ud800", "a\ud800b", "\0", "\u202e", "\x7f", "'; DROP TABLE reports; --", "\uff11", " 1", "1 ", "01", "+1"],
    )
    def test_what_looks_like_an_item_is_not_one(self, live: Live, policy: Policy, item: str) -> None:
        row = {"item": item, "symbol": 3, "revision": 0}
        body = json.dumps({"format": "tacit-reports/1", "policy": policy.id, "reports": [row]}).encode()
        answer = live.ask("POST", "/v1/reports", body, **self.as_device())
        assert (answer.status, json.loads(answer.body)["rejected"]) == (200, [{"index": 0, "code": "unknown-item"}])
        assert live.store.count("devices") == 0

    @pytest.mark.parametrize("policy_id", ["\ud800", "", "x" * 100_000, "' OR 1=1", "\0", "C" * 64])
    def test_a_policy_that_is_none_is_refused_and_not_repeated(
        self, live: Live, policy: Policy, policy_id: str
    ) -> None:
        document = json.loads(batch(policy, ("1", 3, 0))) | {"policy": policy_id}
        answer = live.ask("POST", "/v1/reports", json.dumps(document).encode(), **self.as_device())
        assert answer.status == 422
        assert not policy_id or policy_id.encode("utf-8", "replace")[:40] not in answer.body

    @pytest.mark.parametrize("path", ["/v1/items", "/v1/training-runs", "/v1/recommendations"])
    @pytest.mark.parametrize(
        "body",
        [
            b"{",
            b"[" * 200_000,
            b"\xef\xbb\xbf{}",
            b'{"n":1,"n":2}',
            b'{"a":\xff}',
            "{}".encode("utf-16"),
            b"9" * 5000,
            b'{"\\ud800":1}',
            b'{"n":NaN}',
            b"{}\0",
            b'{"x":"\\u0000"}',
        ],
        ids=lambda body: repr(body[:20]),
    )
    def test_other_bodies_are_read_as_strictly(self, live: Live, path: str, body: bytes) -> None:
        answer = live.ask("POST", path, body, Content_Type="application/json", Authorization=f"Bearer {OPERATOR}")
        assert answer.status in {400, 422}
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP", "gzip, identity", "x"])
    def test_nothing_is_unpacked(self, live: Live, encoding: str) -> None:
        bomb = gzip.compress(b" " * 10_000_000)
        answer = live.ask("POST", "/v1/reports", bomb, **self.as_device(), Content_Encoding=encoding)
        assert answer.status == 415

    @staticmethod
    def as_device() -> dict[str, str]:
        return {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}"}

    def refused(self, live: Live, body: bytes, status: int) -> None:
        answer = live.ask("POST", "/v1/reports", body, **self.as_device())
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        assert len(answer.body) < 1000
        assert (live.store.count("devices"), live.store.count("reports")) == (0, 0)


class TestSizes:
    HEAD = (
        f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"
    ).encode()

    def test_a_body_that_is_too_large_is_refused_unread(self, live: Live) -> None:
        answer = live.say(self.HEAD + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1))
        assert (answer.status, answer.headers["connection"]) == (413, "close")

    @pytest.mark.parametrize("path", [b"/v1/reports", b"/v1/recommendations", b"/v1/items"])
    def test_a_body_without_a_length_is_counted(self, live: Live, path: bytes) -> None:
        chunk = b"%x\r\n" % 2**16 + b" " * 2**16 + b"\r\n"
        head = self.HEAD.replace(b"/v1/reports", path) + b"Transfer-Encoding: chunked\r\n\r\n"
        answer = live.say(head, *[chunk] * 8, b"2\r\n  \r\n")
        assert (answer.status, answer.headers["connection"]) == (413, "close")

    @pytest.mark.parametrize(
        "length",
        [
            b"-1",
            b"+5",
            b"5 5",
            b"0x5",
            b"five",
            "\u0665".encode(),
            b"\xb2",
            b"9" * 30,
            b"5\r\nContent-Length: 6",
            b"5, 5",
            b"1_0",
            b"5\0",
        ],
    )
    def test_a_length_that_is_none_is_refused(self, live: Live, length: bytes) -> None:
        answer = live.say(self.HEAD + b"Content-Length: " + length + b"\r\n\r\nhello")
        assert answer.status in {400, 413}

    @pytest.mark.parametrize("length", ["-1", "five", "9" * 5000, "\xb2"])
    def test_also_where_the_server_in_front_lets_it_through(
        self, client: TestClient, device: DeviceHeaders, length: str
    ) -> None:
        stated = {name.encode(): value.encode("latin-1") for name, value in (JSON | device(1)).items()}
        stated[b"Content-Length"] = length.encode("latin-1")
        answer = client.post("/v1/reports", content=b"{}", headers=stated)
        assert_problem(answer, 400, 413)

    @pytest.mark.parametrize(
        "smuggled",
        [
            b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5",
            b"Transfer-Encoding: chunked, identity",
            b"Transfer-Encoding: x",
            b"Transfer-Encoding : chunked",
        ],
    )
    def test_two_lengths_are_one_too_many(self, live: Live, smuggled: bytes) -> None:
        answer = live.say(self.HEAD + smuggled + b"\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.status == 400

    @pytest.mark.parametrize(
        ("start", "more"),
        [
            (b"GET / HTTP/1.1\r\n", b"X-Padding: " + b"x" * 8000 + b"\r\n"),
            (b"GET / HTTP/1.1\r\nX-Padding: ", b"x" * 8000),
            (b"GET /", b"a" * 8000),
            (b"", b"\r\n" * 4000),
        ],
    )
    def test_a_head_without_end_is_cut_off(self, live: Live, start: bytes, more: bytes) -> None:
        with live.connected() as connection:
            connection.sendall(start)
            sent = until_closed(connection, more, 2000)
        assert sent < 1000  # what was on its way when the connection was closed

    def test_a_body_that_does_not_come_is_not_waited_for(self, live: Live) -> None:
        for path in (b"/v1/reports", b"/v1/recommendations"):
            answer = live.say(self.HEAD.replace(b"/v1/reports", path) + b"Content-Length: 100\r\n\r\n{")
            assert (answer.status, answer.headers["connection"]) == (408, "close")

    def test_a_head_that_does_not_come_is_not_waited_for(self, live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "SECONDS_FOR_A_REQUEST", 0.3)
        for part in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with live.connected() as connection:
                connection.sendall(part)
                assert connection.recv(100) == b""

    def test_an_address_that_is_too_long_finds_nothing(self, live: Live) -> None:
        assert live.ask("GET", f"/v1/items/{'x' * 30_000}/similar").status == 422
        assert live.ask("GET", f"/v1/items?after={'9' * 30_000}").status == 422

    def test_who_disconnects_in_the_middle_does_no_harm(self, live: Live, policy: Policy) -> None:
        body = batch(policy, ("1", 3, 0))
        head = self.HEAD.replace(TOKEN.encode(), b"d" * 32) + b"Content-Length: %d\r\n\r\n" % len(body)
        for cut in (10, len(head) - 1, len(head), len(head) + len(body) // 2):
            with live.connected() as connection:
                connection.sendall((head + body)[:cut])
        assert live.ask("GET", "/health/live").status == 200
        assert live.ask("GET", "/v1/devices/me", Authorization="Bearer " + "d" * 32).status == 404


class TestPaths:
    @pytest.mark.parametrize(
        "name",
        [
            "..",
            "../app.py",
            "..%2f..%2fapp.py",
            "%2e%2e/app.py",
            "%2e%2e%2fapp.py",
            "..%5capp.py",
            "..\\app.py",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "tradeoff.json%00",
            "%00",
            "tradeoff.json/",
            "./tradeoff.json",
            "TRADEOFF.JSON",
            "tradeoff.json%20",
            "file:///etc/passwd",
            "~root",
            "%c0%ae%c0%ae%c0%afapp.py",
            "%252e%252e%252fapp.py",
            "C:%5cx",
        ],
    )
    def test_no_name_leads_out_of_the_pages(self, live: Live, name: str) -> None:
        answer = live.ask("GET", f"/assets/{name}")
        assert answer.status in {400, 404}
        assert b"root:" not in answer.body

    @pytest.mark.parametrize(
        "run",
        [
            "..",
            "%2e%2e",
            "1%2f..",
            "-1",
            "0",
            "1.5",
            "1e1",
            "\u0663",
            "%00",
            "' OR 1=1",
            "1;DROP",
            "9" * 20,
            "lock",
            "2147483648",
        ],
    )
    def test_no_run_leads_out_of_its_folder(self, live: Live, run: str) -> None:
        quoted = run.encode().decode("latin-1").replace(" ", "%20")
        for path in (f"/v1/training-runs/{quoted}", f"/v1/training-runs/{quoted}/log"):
            assert live.ask("GET", path, Authorization=f"Bearer {OPERATOR}").status in {400, 404, 422}

    @pytest.mark.parametrize(
        "target",
        [
            "http://elsewhere/v1/stats",
            "//v1/stats",
            "/v1/stats/",
            "/v1//stats",
            "/V1/stats",
            "/./v1/stats",
            "/x/../v1/stats",
            "/v1/stats%00",
            "/v1/stats;x",
        ],
    )
    def test_no_spelling_gets_around_a_check(self, live: Live, target: str) -> None:
        assert live.ask("GET", target, Host="elsewhere").status in {400, 401, 404}

    def test_nothing_that_is_sent_becomes_a_header(self, live: Live) -> None:
        for path in (
            "/v1/policies/%0d%0aX-Injected:%201",
            "/%0d%0aX-Injected:%201",
            "/v1/items/a%0d%0aX-Injected:1/similar",
            "/assets/%0d%0aX-Injected:1",
        ):
            answer = live.ask("GET", path, If_None_Match='"%0d%0aX-Injected: 1"')
            assert "x-injected" not in answer.headers
            assert b"Injected" not in answer.body


SQL = [
    "'; DROP TABLE reports; --",
    "1' OR '1'='1",
    '1" OR "1"="1',
    "1); DELETE FROM devices; --",
    "%' --",
    "\\'; SELECT pg_sleep(9); --",
]


def test_sql_is_text(
    client: TestClient, store: ReportStore, admin: Headers, device: DeviceHeaders, policy: Policy
) -> None:
    client.post("/v1/reports", content=batch(policy, ("1", 3, 0)), headers=JSON | device(0))
    for number, text in enumerate(SQL, 1):
        listed = {"items": [{"item": text, "title": text}]}
        for expected in ({"added": 1, "changed": 0}, {"added": 0, "changed": 0}):
            assert client.post("/v1/items", json=listed, headers=admin).json() == expected
        client.post("/v1/reports", content=batch(policy, (text, 4, 0)), headers=JSON | device(number))
        assert said_by(client, device(number)) == [(text, 4, 0)]
        assert client.get("/v1/items", params={"after": 99 + number}).json()["items"] == listed["items"]
        for asked in ({"after": text}, {"limit": text}):
            assert_problem(client.get("/v1/items", params=asked), 422)
        assert_problem(client.get(f"/v1/policies/{text}"), 404, 422)
        assert_problem(client.post("/v1/training-runs", json={"model": text[:40]}, headers=admin), 422)
    assert said_by(client, device(0)) == [("1", 3, 0)]
    counts = [store.count(table) for table in ("items", "devices", "reports")]
    assert counts == [100 + len(SQL), 1 + len(SQL), 1 + len(SQL)]


class TestOtherTabs:
    @pytest.mark.parametrize("method", ["GET", "OPTIONS", "HEAD"])
    def test_no_other_origin_is_let_in(self, live: Live, method: str) -> None:
        asked: dict[str, Any] = {
            "Origin": "https://elsewhere.example",
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "authorization",
        }
        for path in ("/v1/policy", "/v1/reports", "/v1/stats", "/metrics", "/openapi.json"):
            answer = live.ask(method, path, **asked)
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"

    @pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "PROPFIND"])
    def test_other_methods_do_nothing(self, live: Live, method: str) -> None:
        answer = live.ask(method, "/v1/devices/me", Authorization=f"Bearer {TOKEN}")
        assert answer.status == 405
        assert set(answer.headers["allow"].replace(" ", "").split(",")) <= {"GET", "DELETE"}
        assert TOKEN.encode() not in answer.body

    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
    )
    def test_what_a_form_can_send_is_not_read(self, live: Live, policy: Policy, kind: str) -> None:
        body = json.dumps({"policy": policy.id}).encode()
        assert live.ask("POST", "/v1/recommendations", body, Content_Type=kind).status == 422

    def test_every_answer_has_the_headers_that_protect(self, live: Live) -> None:
        for method, path in [
            ("GET", "/v1/policy"),
            ("GET", "/nothing"),
            ("POST", "/v1/reports"),
            ("GET", "/assets/tradeoff.json"),
            ("PUT", "/"),
        ]:
            headers = live.ask(method, path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert (headers["x-content-type-options"], headers["x-frame-options"], headers["referrer-policy"]) == (
                "nosniff",
                "DENY",
                "no-referrer",
            )
            assert "server" not in headers
            assert "set-cookie" not in headers

    def test_what_is_a_devices_own_is_not_kept_on_the_way(self, live: Live) -> None:
        assert live.ask("GET", "/v1/devices/me", Authorization=f"Bearer {TOKEN}").headers["cache-control"] == "no-store"
        assert (
            live.ask("GET", "/v1/recommendations", Authorization=f"Bearer {TOKEN}").headers["cache-control"]
            == "no-store"
        )


class TestLimits:
    def test_a_device_that_asks_too_often_waits_alone(
        self,
        store: ReportStore,
        serving: Callable[..., TestClient],
        device: DeviceHeaders,
        policy: Policy,
        admin: Headers,
    ) -> None:
        with serving(store, Settings(limits=RateLimits(per_device=4))) as client:
            asked = [client.get("/v1/recommendations", headers=device(1)) for _ in range(6)]
            assert [answer.status_code for answer in asked] == [200] * 4 + [429] * 2
            assert_problem(asked[-1], 429)
            assert 1 <= int(asked[-1].headers["retry-after"]) <= 60
            for method, path in (("POST", "/v1/reports"), ("GET", "/v1/devices/me"), ("DELETE", "/v1/devices/me")):
                assert client.request(method, path, headers=device(1)).status_code == 429
            answer = client.post("/v1/reports", content=batch(policy, ("1", 3, 0)), headers=JSON | device(2))
            assert answer.json()["accepted"] == 1
            assert client.get("/v1/stats", headers=admin).status_code == 200
            assert client.get("/v1/policy").status_code == 200

    def test_questions_nobody_signs_have_a_limit_of_their_own(
        self, store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders, policy: Policy
    ) -> None:
        with serving(store, Settings(limits=RateLimits(anonymous=3))) as client:
            codes = [client.post("/v1/recommendations", json={"policy": policy.id}).status_code for _ in range(5)]
            assert codes == [200] * 3 + [429] * 2
            assert client.get("/v1/items/1/similar").status_code == 429
            assert client.get("/v1/recommendations", headers=device(1)).status_code == 200

    def test_made_up_methods_do_not_fill_the_memory(self, client: TestClient) -> None:
        for number in range(50):
            client.request(f"METHOD{number}", "/v1/policy")
        text = client.get("/metrics").text
        assert "METHOD" not in text
        assert 'tacit_requests_total{method="other",route="/v1/policy",status="405"} 50.0' in text


def test_logs_hold_no_token_no_address_and_no_report(
    store: ReportStore, trained: Trainer, policy: Policy, on_loopback: OnLoopback, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sent = {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with on_loopback(store, trained, Settings(body_seconds=0.2)) as port:
        live = Live(port, store)
        live.ask("POST", "/v1/reports", batch(policy, ("77", 3, 12345)), **sent)
        live.ask("POST", "/v1/reports", b'{"secret-body": 77777', **sent)
        live.ask("GET", "/v1/stats", Authorization=f"Bearer {TOKEN}")
        live.ask("GET", f"/v1/items?token={TOKEN}")
        live.say(TestSizes.HEAD + b"Content-Length: 100\r\n\r\n{")
        live.say(b"nonsense " + TOKEN.encode() + b"\r\n\r\n")
        with store.database.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE reports RENAME TO elsewhere")
        assert live.ask("POST", "/v1/reports", batch(policy, ("77", 3, 12345)), **sent).status == 503
        assert live.ask("GET", "/v1/devices/me", Authorization=f"Bearer {TOKEN}").status == 503
    text = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    assert "storing failed" in text
    text = text.replace(f"[{os.getpid()}]", "")  # uvicorn's own greeting; its number may be any
    for secret in (TOKEN, "secret-body", "77777", "12345", "127.0.0.1:", str(port)):
        assert secret not in text


def test_a_fault_is_answered_without_saying_which(
    store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError(TOKEN)

    monkeypatch.setattr(ReportStore, "reports_of", fault)
    with serving(store) as client:
        answer = client.get("/v1/devices/me", headers=device(1))
    assert_problem(answer, 500)
    assert TOKEN not in answer.text
    assert "RuntimeError" not in answer.text
    assert "default-src" in answer.headers["content-security-policy"]
