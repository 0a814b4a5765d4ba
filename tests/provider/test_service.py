"""Every address of the service, on both databases."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from tacit.errors import InvalidInputError
from tacit.privacy.compact import encode_compact
from tacit.privacy.item_wire import decode_items
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, encode_json
from tacit.privacy.scale import RatingScale
from tacit.provider.service import AdminToken, RateLimits, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.testclient import TestClient

    from tacit.provider.store import ReportStore
    from tacit.provider.training import Trainer

    Headers = dict[str, str]
    DeviceHeaders = Callable[[int], Headers]

JSON = {"Content-Type": "application/json"}
COMPACT = {"Content-Type": "application/vnd.tacit.reports"}
PROBLEM = "application/problem+json"

ITEMS_THAT_CANNOT_BE: list[Any] = [
    [],
    [{"item": "x" * 201, "title": ""}],
    [{"item": "é" * 101, "title": ""}],
    [{"item": "", "title": ""}],
    [{"item": "a\0b", "title": ""}],
    [{"item": "a", "title": "line\nbreak"}],
    [{"item": "a", "title": "\u202egnp.exe"}],
    [{"item": "a", "title": "x" * 501}],
    [{"item": "a"}],
    [{"item": 17, "title": ""}],
    [{"item": "a", "title": "", "rating": 5}],
    [{"item": str(number), "title": ""} for number in range(1001)],
]
RUNS_THAT_CANNOT_BE: list[Any] = [
    {"model": "no-such-model"},
    {"options": {"no-such-option": 1}},
    {"options": {"iterations": "many"}},
    {"options": {"iterations": [1]}},
    {"options": {"tolerance": 10**39}},
    {"seed": 1},
    {"model": "offsets", "options": {str(number): 1 for number in range(41)}},
    [],
    "offsets",
]
SESSIONS_THAT_CANNOT_BE: list[Any] = [
    {"symbols": [{"item": "1", "symbol": 4096}]},
    {"symbols": [{"item": "1", "symbol": 500}]},
    {"symbols": [{"item": "1", "symbol": -1}]},
    {"symbols": [{"item": "1", "symbol": 1}, {"item": "1", "symbol": 2}]},
    {"symbols": [{"item": "1", "symbol": 1, "rating": 5}]},
    {"symbols": [{"item": "1", "symbol": 1}] * 1001},
    {"symbols": [{"item": "", "symbol": 1}]},
    {"symbols": [{"item": "1", "symbol": True}]},
    {"policy": "latest"},
    {"n": 0},
    {"n": 1001},
    {"ratings": {"1": 5}},
    {"epsilon": 100},
]
PAGES_THAT_CANNOT_BE: list[Any] = [{"limit": 0}, {"limit": 10_001}, {"after": -1}, {"after": "x"}, {"after": 2**31}]


def reports_on(policy: Policy, *said: tuple[str, int, int]) -> list[Report]:
    return [Report(policy.id, *one) for one in said]


def batch(policy: Policy, *said: tuple[str, int, int]) -> bytes:
    return encode_json(reports_on(policy, *said))


def assert_problem(answer: Any, code: str, status: int) -> None:
    document = answer.json()
    assert (answer.status_code, document["code"], document["status"]) == (status, code, status)
    assert answer.headers["content-type"] == PROBLEM
    assert set(document) == {"type", "title", "status", "detail", "code"}
    assert document["type"] == f"/problems/{code}"
    assert "\n" not in document["detail"]


@pytest.fixture
def published(store: ReportStore, trained: Trainer, serving: Callable[..., TestClient]) -> Iterator[TestClient]:
    """A service that has published a model."""
    with serving(store, trainer=trained) as asking:
        yield asking


class TestPolicy:
    def test_the_current_one_is_sent_as_it_is(self, client: TestClient, policy: Policy) -> None:
        answer = client.get("/v1/policy")
        assert answer.status_code == 200
        assert answer.content == policy.to_json()
        assert answer.headers["etag"] == f'"{policy.id}"'
        assert Policy.from_json(answer.content) == policy

    def test_who_has_it_is_told_so(self, client: TestClient, policy: Policy) -> None:
        tag = f'"{policy.id}"'
        for stated in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = client.get("/v1/policy", headers={"If-None-Match": stated})
            assert (answer.status_code, answer.content) == (304, b"")

    def test_who_has_another_gets_it(self, client: TestClient) -> None:
        assert client.get("/v1/policy", headers={"If-None-Match": '"other"'}).status_code == 200

    def test_an_old_one_stays_known_and_usable(
        self,
        store: ReportStore,
        serving: Callable[..., TestClient],
        policy: Policy,
        device: DeviceHeaders,
    ) -> None:
        newer = Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2")
        store.adopt(newer)
        with serving(store) as client:
            assert client.get("/v1/policy").headers["etag"] == f'"{newer.id}"'
            assert client.get(f"/v1/policies/{policy.id}").content == policy.to_json()
            assert client.get(f"/v1/policies/{newer.id}").content == newer.to_json()
            for used in (policy, newer):
                body = batch(used, (f"{used is newer:d}", 1, 0))
                answer = client.post("/v1/reports", content=body, headers=JSON | device(1))
                assert answer.json() == {"accepted": 1, "duplicates": 0, "rejected": []}
            assert client.get("/v1/devices/me", headers=device(1)).json()["epsilon"] == "3"

    def test_one_that_is_not_known_is_not_found(self, client: TestClient) -> None:
        assert_problem(client.get(f"/v1/policies/{'0' * 64}"), "not-found", 404)
        assert_problem(client.get("/v1/policies/short"), "invalid", 422)


class TestItems:
    def test_come_in_pages_in_order_of_entry(self, client: TestClient) -> None:
        found: list[Any] = []
        page: dict[str, Any] = {"next": 0}
        while page["next"] is not None:
            page = client.get("/v1/items", params={"after": page["next"], "limit": 30}).json()
            assert page["total"] == 100
            found += page["items"]
        assert found == [{"item": str(number), "title": f"Title {number}"} for number in range(100)]

    def test_have_a_tag_that_changes_with_them(self, client: TestClient, admin: Headers) -> None:
        tag = client.get("/v1/items").headers["etag"]
        assert client.get("/v1/items", headers={"If-None-Match": tag}).status_code == 304
        client.post("/v1/items", json={"items": [{"item": "7", "title": "Another"}]}, headers=admin)
        assert client.get("/v1/items", headers={"If-None-Match": tag}).status_code == 200

    def test_are_added_and_changed_once(self, client: TestClient, admin: Headers) -> None:
        listed = {"items": [{"item": "7", "title": "Another"}, {"item": "é/1", "title": "中"}]}
        assert client.post("/v1/items", json=listed, headers=admin).json() == {"added": 1, "changed": 1}
        assert client.post("/v1/items", json=listed, headers=admin).json() == {"added": 0, "changed": 0}
        page = client.get("/v1/items", params={"limit": 10_000}).json()
        assert (page["total"], page["items"][7]["title"], page["items"][-1]["item"]) == (101, "Another", "é/1")

    def test_a_page_that_cannot_be_is_refused(self, client: TestClient) -> None:
        for asked in PAGES_THAT_CANNOT_BE:
            assert_problem(client.get("/v1/items", params=asked), "invalid", 422)

    def test_items_that_cannot_be_are_refused_whole(self, client: TestClient, admin: Headers) -> None:
        good = {"item": "good", "title": "Good"}
        for listed in ITEMS_THAT_CANNOT_BE:
            body = {"items": [good, *listed] if listed else []}
            assert_problem(client.post("/v1/items", json=body, headers=admin), "invalid", 422)
        assert client.get("/v1/items").json()["total"] == 100


class TestReports:
    @pytest.mark.parametrize("compact", [False, True])
    def test_are_stored_once_in_both_forms(
        self, client: TestClient, device: DeviceHeaders, policy: Policy, compact: bool
    ) -> None:
        reports = reports_on(policy, ("3", 5, 0), ("7", 0, 0), ("3", 9, 1))
        body = encode_compact(reports, policy) if compact else encode_json(reports)
        sent = (COMPACT if compact else JSON) | device(1)
        answer = client.post("/v1/reports", content=body, headers=sent)
        assert (answer.status_code, answer.json()) == (200, {"accepted": 3, "duplicates": 0, "rejected": []})
        assert client.post("/v1/reports", content=body, headers=sent).json()["duplicates"] == 3
        kept = client.get("/v1/devices/me", headers=device(1)).json()
        said = [(one["item"], one["symbol"], one["revision"]) for one in kept["reports"]]
        assert (said, kept["epsilon"]) == ([("3", 5, 0), ("3", 9, 1), ("7", 0, 0)], "3")
        assert {one["policy"] for one in kept["reports"]} == {policy.id}

    def test_those_that_cannot_be_stored_are_named(
        self, store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders, policy: Policy
    ) -> None:
        symbols = policy.channel.weights.symbols
        said = [("1", 0, 0), ("nothing", 0, 0), ("2", symbols, 0), ("3", 0, 0), ("4", 0, 0)]
        with serving(store, Settings(most_reports_per_device=2)) as client:
            answer = client.post("/v1/reports", content=batch(policy, *said), headers=JSON | device(1))
            codes = [(1, "unknown-item"), (2, "unknown-symbol"), (4, "too-many-reports")]
            rejected = [{"index": index, "code": code} for index, code in codes]
            assert answer.json() == {"accepted": 2, "duplicates": 0, "rejected": rejected}

    def test_a_policy_not_in_use_stores_nothing(
        self, client: TestClient, store: ReportStore, device: DeviceHeaders, policy: Policy
    ) -> None:
        other = Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2")
        forms = [(batch(other, ("1", 0, 0)), JSON), (encode_compact(reports_on(other, ("1", 0, 0)), other), COMPACT)]
        for body, kind in forms:
            assert_problem(client.post("/v1/reports", content=body, headers=kind | device(1)), "unknown-policy", 422)
        assert (store.count("devices"), store.count("reports")) == (0, 0)
        assert policy.id != other.id

    def test_another_kind_of_content_is_refused(
        self, client: TestClient, device: DeviceHeaders, policy: Policy
    ) -> None:
        body = batch(policy, ("1", 0, 0))
        for kind in ("text/plain", "application/octet-stream", "", "multipart/form-data", "text/json"):
            answer = client.post("/v1/reports", content=body, headers={"Content-Type": kind} | device(1))
            assert_problem(answer, "unsupported-media-type", 415)

    def test_the_kind_of_content_may_have_parameters(
        self, client: TestClient, device: DeviceHeaders, policy: Policy
    ) -> None:
        sent = {"Content-Type": "Application/JSON; charset=utf-8"} | device(1)
        assert client.post("/v1/reports", content=batch(policy, ("1", 0, 0)), headers=sent).status_code == 200


class TestDevices:
    def test_one_that_said_nothing_is_unknown(self, client: TestClient, device: DeviceHeaders) -> None:
        assert_problem(client.get("/v1/devices/me", headers=device(1)), "unknown-device", 404)

    def test_deleting_is_complete_and_may_be_repeated(
        self, client: TestClient, store: ReportStore, device: DeviceHeaders, policy: Policy
    ) -> None:
        for number in (1, 2):
            client.post("/v1/reports", content=batch(policy, ("1", 3, 0)), headers=JSON | device(number))
        for _ in range(2):
            answer = client.delete("/v1/devices/me", headers=device(1))
            assert (answer.status_code, answer.content) == (204, b"")
        assert_problem(client.get("/v1/devices/me", headers=device(1)), "unknown-device", 404)
        assert (store.count("devices"), store.count("reports")) == (1, 1)
        assert client.get("/v1/devices/me", headers=device(2)).status_code == 200

    def test_one_that_was_deleted_may_begin_again(
        self, client: TestClient, device: DeviceHeaders, policy: Policy
    ) -> None:
        for symbol in (3, 4):
            client.post("/v1/reports", content=batch(policy, ("1", symbol, 0)), headers=JSON | device(1))
            (kept,) = client.get("/v1/devices/me", headers=device(1)).json()["reports"]
            assert kept["symbol"] == symbol
            client.delete("/v1/devices/me", headers=device(1))


class TestRuns:
    def test_one_at_a_time_and_looked_at(self, client: TestClient, admin: Headers) -> None:
        wanted = {"model": "offsets", "options": {}}
        answer = client.post("/v1/training-runs", json=wanted, headers=admin)
        assert answer.status_code == 202
        assert answer.headers["location"] == "/v1/training-runs/1"
        assert int(answer.headers["retry-after"]) >= 1
        assert (answer.json()["state"], answer.json()["model"]) == ("queued", "offsets")
        assert_problem(client.post("/v1/training-runs", headers=admin), "conflict", 409)
        shown = client.get(answer.headers["location"], headers=admin)
        assert shown.json() == answer.json()
        assert int(shown.headers["retry-after"]) >= 1
        assert client.get("/v1/training-runs", headers=admin).json() == {"runs": [answer.json()]}
        log = client.get("/v1/training-runs/1/log", headers=admin)
        assert (log.status_code, log.headers["content-type"], log.text) == (200, "text/plain; charset=utf-8", "")

    def test_without_a_body_the_default_is_trained(self, client: TestClient, admin: Headers) -> None:
        answer = client.post("/v1/training-runs", headers=admin)
        assert (answer.status_code, answer.json()["model"], answer.json()["options"]) == (202, "channel-mf", {})

    def test_what_cannot_be_trained_is_refused(self, client: TestClient, admin: Headers) -> None:
        for wanted in RUNS_THAT_CANNOT_BE:
            assert_problem(client.post("/v1/training-runs", json=wanted, headers=admin), "invalid", 422)
        assert client.get("/v1/training-runs", headers=admin).json() == {"runs": []}

    def test_one_that_is_not_there_is_not_found(self, client: TestClient, admin: Headers) -> None:
        for path in ("/v1/training-runs/7", "/v1/training-runs/7/log"):
            assert_problem(client.get(path, headers=admin), "not-found", 404)


class TestModel:
    def test_without_one_everybody_is_told_to_wait(self, client: TestClient) -> None:
        for path in ("/v1/model", "/v1/model/items", "/v1/items/1/similar"):
            answer = client.get(path)
            assert_problem(answer, "no-model", 404)
            assert int(answer.headers["retry-after"]) >= 1

    def test_is_described(self, published: TestClient, trained: Trainer, policy: Policy) -> None:
        answer = published.get("/v1/model")
        document = answer.json()
        assert (document["run"], document["model"], document["policies"]) == (1, "channel-mf", [policy.id])
        assert 0 < document["published_items"] < document["items"]
        assert (document["least_reports"], document["reports"]) == (20, 2400)
        assert trained.published is not None
        assert document["bytes"] == len(trained.published.items)
        tag = {"If-None-Match": answer.headers["etag"]}
        assert published.get("/v1/model", headers=tag).status_code == 304

    def test_its_public_part_is_what_devices_read(self, published: TestClient) -> None:
        plain = published.get("/v1/model/items", headers={"Accept-Encoding": "identity"})
        assert plain.headers["content-type"] == "application/vnd.tacit.items"
        assert "content-encoding" not in plain.headers
        assert len(decode_items(plain.content).items) == published.get("/v1/model").json()["published_items"]
        packed = published.get("/v1/model/items", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content  # the client unpacks
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        tag = {"If-None-Match": plain.headers["etag"]}
        assert published.get("/v1/model/items", headers=tag).status_code == 304

    def test_is_not_packed_for_those_who_cannot_unpack(self, published: TestClient) -> None:
        for accepted in ("gzip;q=0", "br, gzip; q=0.0", "not-gzip", "identity"):
            answer = published.get("/v1/model/items", headers={"Accept-Encoding": accepted})
            assert "content-encoding" not in answer.headers
            assert answer.content[:3] == b"tim"
        for accepted in ("gzip", "br, gzip;q=0.5", "GZIP , br"):
            answer = published.get("/v1/model/items", headers={"Accept-Encoding": accepted})
            assert answer.headers["content-encoding"] == "gzip"


class TestRecommendations:
    def test_before_a_model_it_is_what_is_popular(
        self, store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders, policy: Policy
    ) -> None:
        with serving(store, Settings(least_reports=2)) as client:
            for number in (1, 2):
                body = batch(policy, ("7", 1, 0), (str(number), 1, 0))
                client.post("/v1/reports", content=body, headers=JSON | device(number))
            answer = client.get("/v1/recommendations", params={"n": 3}, headers=device(9)).json()
            assert answer == {  # one report each on 1 and 2 moves nothing
                "items": [{"item": item, "score": None, "rank": rank} for rank, item in enumerate("701", 1)],
                "fallback": True,
                "reason": "cold-start",
                "run": None,
            }
            own = client.get("/v1/recommendations", params={"n": 2}, headers=device(1)).json()
            assert [one["item"] for one in own["items"]] == ["0", "2"]  # not what it reported on

    def test_follow_from_what_a_device_said(self, published: TestClient, device: DeviceHeaders, policy: Policy) -> None:
        highest = policy.channel.weights.symbols - 1
        said = [(str(item), highest, 0) for item in range(12)]
        published.post("/v1/reports", content=batch(policy, *said), headers=JSON | device(1))
        answer = published.get("/v1/recommendations", params={"n": 5}, headers=device(1)).json()
        assert (answer["fallback"], answer["reason"], answer["run"]) == (False, "reports", 1)
        assert [one["rank"] for one in answer["items"]] == [1, 2, 3, 4, 5]
        scores = [one["score"] for one in answer["items"]]
        assert scores == sorted(scores, reverse=True)
        assert {one["item"] for one in answer["items"]}.isdisjoint(item for item, _, _ in said)
        asked = {"policy": policy.id, "symbols": [{"item": item, "symbol": symbol} for item, symbol, _ in said], "n": 5}
        assert published.post("/v1/recommendations", json=asked).json() == answer

    def test_for_a_session_store_nothing(self, published: TestClient, store: ReportStore, policy: Policy) -> None:
        asked = {"policy": policy.id, "symbols": [{"item": "1", "symbol": 3}]}
        assert published.post("/v1/recommendations", json=asked).status_code == 200
        assert (store.count("devices"), store.count("reports")) == (0, 0)

    def test_go_by_the_newest_revision(self, published: TestClient, device: DeviceHeaders, policy: Policy) -> None:
        highest = policy.channel.weights.symbols - 1
        for number, newest in ((1, 0), (2, highest)):
            said = [(str(item), symbol, at) for item in range(12) for at, symbol in enumerate((5, newest))]
            published.post("/v1/reports", content=batch(policy, *said), headers=JSON | device(number))
        lists = [published.get("/v1/recommendations", headers=device(number)).json()["items"] for number in (1, 2)]
        assert lists[0][0]["score"] < lists[1][0]["score"]

    def test_a_session_that_says_nothing_gets_what_is_popular(self, published: TestClient, policy: Policy) -> None:
        for symbols in ([], [{"item": "no such item", "symbol": 1}]):
            answer = published.post("/v1/recommendations", json={"policy": policy.id, "symbols": symbols})
            assert (answer.status_code, answer.json()["reason"], answer.json()["run"]) == (200, "cold-start", 1)

    def test_what_no_device_would_ask_is_refused(self, published: TestClient, policy: Policy) -> None:
        for change in SESSIONS_THAT_CANNOT_BE:
            asked = {"policy": policy.id} | change
            assert_problem(published.post("/v1/recommendations", json=asked), "invalid", 422)

    def test_a_policy_not_in_use_is_refused(self, published: TestClient) -> None:
        assert_problem(published.post("/v1/recommendations", json={"policy": "0" * 64}), "unknown-policy", 422)

    def test_a_list_that_cannot_be_is_refused(self, published: TestClient, device: DeviceHeaders) -> None:
        for n in ("0", "1001", "-1", "x", "1e3", ""):
            assert_problem(published.get("/v1/recommendations", params={"n": n}, headers=device(1)), "invalid", 422)
            assert_problem(published.get("/v1/items/1/similar", params={"n": n}), "invalid", 422)


class TestRareItems:
    """Items with few reports are not published; no other answer may be used to find out about them."""

    @staticmethod
    def split(trained: Trainer) -> tuple[list[str], list[str]]:
        assert trained.published is not None
        public = {str(one) for one in decode_items(trained.published.items).items.ids.tolist()}
        known = [str(one) for one in trained.published.model.items.ids.tolist()]
        return [one for one in known if one in public], [one for one in known if one not in public]

    def test_are_like_nothing(self, published: TestClient, trained: Trainer) -> None:
        public, rare = self.split(trained)
        assert rare
        for item in rare:
            assert_problem(published.get(f"/v1/items/{item}/similar"), "not-found", 404)
        found = published.get(f"/v1/items/{public[0]}/similar", params={"n": 1000}).json()["items"]
        assert {one["item"] for one in found} == set(public[1:])
        assert [one["rank"] for one in found] == list(range(1, len(public)))

    def test_are_not_recommended_and_do_not_count(
        self, published: TestClient, trained: Trainer, policy: Policy
    ) -> None:
        public, rare = self.split(trained)
        said = [{"item": item, "symbol": 3} for item in public[:5]]
        extra = [{"item": item, "symbol": 60} for item in rare]
        lists = [
            published.post("/v1/recommendations", json={"policy": policy.id, "symbols": one, "n": 1000}).json()
            for one in (said, said + extra)
        ]
        assert lists[0] == lists[1]
        assert {one["item"] for one in lists[0]["items"]} == set(public[5:])
        alone = published.post("/v1/recommendations", json={"policy": policy.id, "symbols": extra}).json()
        assert alone["reason"] == "cold-start"
        popular = published.post("/v1/recommendations", json={"policy": policy.id, "n": 1000}).json()["items"]
        assert [one["item"] for one in popular] == public


class TestOperation:
    def test_stats_add_up(self, client: TestClient, admin: Headers, device: DeviceHeaders, policy: Policy) -> None:
        said = batch(policy, ("1", 3, 0), ("2", 3, 0), ("x", 0, 0))
        for number in (1, 2, 1):
            client.post("/v1/reports", content=said, headers=JSON | device(number))
        client.post("/v1/reports", content=b"{", headers=JSON | device(1))
        client.post("/v1/training-runs", headers=admin)
        stats = client.get("/v1/stats", headers=admin).json()
        assert {name: stats[name] for name in ("reports", "devices", "items")} == {
            "reports": 4,
            "devices": 2,
            "items": 100,
        }
        (used,) = stats["policies"]
        assert used == {"id": policy.id, "mechanism": "bounded-laplace", "epsilon": "1", "reports": 4}
        assert stats["rejections"] == {"malformed": 1, "unknown-item": 3}
        sums = [sum(hour[name] for hour in stats["hours"]) for name in ("accepted", "duplicates", "rejected")]
        assert sums == [4, 2, 4]
        assert sum(one["devices"] for one in stats["epsilon"]) == 2
        assert stats["epsilon"][-1]["to"] == "2"
        assert [run["id"] for run in stats["runs"]] == [1]
        assert stats["sizing"]["database_bytes"] > 0

    def test_stats_of_nothing(self, client: TestClient, admin: Headers) -> None:
        stats = client.get("/v1/stats", headers=admin).json()
        assert (stats["reports"], stats["hours"], stats["rejections"], stats["epsilon"]) == (0, [], {}, [])
        assert stats["sizing"]["bytes_per_report"] is None

    def test_health(self, client: TestClient) -> None:
        for path in ("/health/live", "/health/ready"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    def test_metrics_count_and_name_nobody(self, client: TestClient, device: DeviceHeaders, policy: Policy) -> None:
        client.post("/v1/reports", content=batch(policy, ("unlisted", 3, 0), ("93", 3, 0)), headers=JSON | device(1))
        client.get("/v1/policies/abc")
        client.get("/no/such/place")
        text = client.get("/metrics").text
        assert 'tacit_reports_total{outcome="accepted"} 1.0' in text
        assert 'tacit_requests_total{method="POST",route="/v1/reports",status="200"} 1.0' in text
        assert 'tacit_problems_total{code="not-found"} 1.0' in text
        assert "no/such" not in text
        assert "abc" not in text
        assert "unlisted" not in text
        assert "_created" not in text  # exact times

    def test_openapi_describes_every_address(self, client: TestClient) -> None:
        described = client.get("/openapi.json").json()
        assert described["openapi"].startswith("3.1")
        assert {"/v1/policy", "/v1/reports", "/v1/devices/me", "/v1/stats", "/metrics"} <= set(described["paths"])


@pytest.mark.parametrize(
    "token", ["short", "a" * 15, "a" * 201, "with a space in it", "0" * 32, "umlauts-äöüäöüäöü", ""]
)
def test_an_admin_token_that_is_weak_or_could_be_a_devices_is_refused(token: str) -> None:
    with pytest.raises(InvalidInputError, match="choose another") as refused:
        AdminToken.of(token)
    assert not token or token not in str(refused.value)


def test_an_admin_token_is_not_shown() -> None:
    assert "secret" not in repr(AdminToken.of("a-secret-admin-token"))


def test_pages_are_listed_by_name_and_the_rest_is_not_found(client: TestClient) -> None:
    answer = client.get("/assets/tradeoff.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert json.loads(answer.content)
    assert client.get("/assets/tradeoff.json", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    for name in ("nothing.js", "__init__.py", ""):
        assert_problem(client.get(f"/assets/{name}"), "not-found", 404)


def test_limits_of_zero_are_none(store: ReportStore, serving: Callable[..., TestClient], device: DeviceHeaders) -> None:
    with serving(store, Settings(limits=RateLimits(0, 0, 0))) as client:
        assert {client.get("/v1/recommendations", headers=device(1)).status_code for _ in range(150)} == {200}


def test_gzip_is_what_is_sent(published: TestClient, trained: Trainer) -> None:
    assert trained.published is not None
    assert gzip.decompress(trained.published.items_gzip) == trained.published.items
    assert published.get("/v1/model").json()["bytes"] == len(trained.published.items)
