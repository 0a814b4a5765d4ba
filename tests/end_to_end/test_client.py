"""The whole way of a rating with Python's client and a real service."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tacit.device import Client, Device, rank_items
from tacit.errors import ConsentError
from tacit.privacy.item_wire import decode_items

if TYPE_CHECKING:
    from pathlib import Path

STARS = {1: 5, 2: 1, 3: 4, 5: 2, 8: 5}


def test_the_whole_way_of_five_ratings(provider: Any, tmp_path: Path) -> None:
    with (
        Device(tmp_path / "ledger", lifetime_epsilon=50) as device,
        Client(provider.address, device, tmp_path / "token") as client,
    ):
        with pytest.raises(ConsentError):
            client.rate(1, 5)
        policy = client.consent()
        titles = {one.item: one.title for one in client.items()}
        assert len(titles) == 150
        for item, stars in STARS.items():
            client.rate(item, stars)
        client.rate("not listed", 3)
        sent = client.send()
        assert (sent.accepted, sent.duplicates) == (5, 0)
        assert [(one.item, one.code) for one in sent.rejected] == [("not listed", "unknown-item")]
        assert client.send().accepted == 0

        stored = client.stored()
        assert {(one.item, one.symbol) for one in stored.reports} == {
            (report.item, report.symbol) for report in device.reports() if report.item != "not listed"
        }
        assert stored.epsilon == 5
        assert {one.policy for one in stored.reports} == {policy.id}

        ranking = client.rank_items()
        with urllib.request.urlopen(f"{provider.address}/v1/model/items") as answer:  # noqa: S310 - our own server
            published = decode_items(answer.read())
        own = {str(item): stars for item, stars in STARS.items()} | {"not listed": 3}
        assert [one.item for one in ranking.recommend()] == [one.item for one in rank_items(published, own).recommend()]
        assert client.rank_items().recommend() == ranking.recommend()  # not fetched twice, and the same

        theirs = client.recommendations(5)
        assert theirs.reason == "reports"
        assert not {one.item for one in theirs.items} & set(map(str, STARS))
        client.delete_everything()

    store = provider.store
    assert store.count("devices") == 200
    store.close()


def test_two_devices_do_not_see_each_other(provider: Any, tmp_path: Path) -> None:
    for name in ("one", "other"):
        with (
            Device(tmp_path / f"{name}-ledger", lifetime_epsilon=50) as device,
            Client(provider.address, device, tmp_path / f"{name}-token") as client,
        ):
            assert client.stored().reports == ()
            client.consent()
            client.rate(1, 3)
            client.send()
            assert len(client.stored().reports) == 1


def test_stored_symbols_say_what_the_ledger_says(provider: Any, tmp_path: Path) -> None:
    with (
        Device(tmp_path / "ledger", lifetime_epsilon=50) as device,
        Client(provider.address, device, tmp_path / "token") as client,
    ):
        client.consent()
        client.rate(1, 3)
        client.rate(1, 5, change=True)
        client.send()
        kept = client.stored().reports
        assert [(one.item, one.revision) for one in kept][-1] == ("1", 1)
        exported = json.loads(json.dumps(device.export()))
        assert {(entry["item"], entry["symbol"]) for entry in exported["entries"]} >= {
            (one.item, one.symbol) for one in kept
        }
