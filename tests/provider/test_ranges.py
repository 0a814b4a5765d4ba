"""Ranges of devices show what the store shows as a whole, on both databases."""

from __future__ import annotations

import hashlib
import pickle
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sqlalchemy import text

from tacit.errors import InvalidInputError, ReportError, StoreError
from tacit.learning import ReportMatrix
from tacit.learning.reports import Alphabet
from tacit.privacy.policy import Policy
from tacit.provider.store import Batch, Item, ReportStore, ranges
from tacit.provider.store.ranges import DeviceRange, StoredPart, device_ranges
from tacit.provider.store.writing import GroupWriter, Said

if TYPE_CHECKING:
    from collections.abc import Sequence

DEVICES = 60


def token_hash(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def said_by(device: int, policy: int, rng: np.random.Generator, symbols: int) -> Batch:
    """Some reports on several items, some of them several times."""
    count = int(rng.integers(1, 30))
    listed = zip(*(rng.integers(0, end, count).tolist() for end in (100, symbols, 4)), strict=True)
    return Batch(token_hash(device), policy, symbols, [Said(str(item), symbol, last) for item, symbol, last in listed])


@pytest.fixture
def rotated(policy: Policy) -> Policy:
    return Policy.make("randomized-response", policy.scale, "2")


@pytest.fixture
def filled(store: ReportStore, policy: Policy, rotated: Policy) -> ReportStore:
    """A store with reports of many devices under two policies, some of them deleted."""
    writer, rng = GroupWriter(store.database, most_reports=1000), np.random.default_rng(5)
    sizes = [len(each.channel.symbol_values) for each in (policy, rotated)]
    writer.store([said_by(device, 1, rng, sizes[0]) for device in range(DEVICES)])
    writer.store([said_by(device, store.adopt(rotated), rng, sizes[1]) for device in range(0, DEVICES, 2)])
    for device in (0, 17, 18, DEVICES - 1):
        writer.delete_device(token_hash(device))
    return store


def read_range(address: str, wanted: DeviceRange, *policies: Policy) -> dict[str, Any]:
    """Read a range as a machine of a cluster does: who said what, under which policy."""
    alphabet = Alphabet.of(policies)
    part = StoredPart(address, pickle.loads(pickle.dumps(wanted)))  # noqa: S301 - our own
    reports = part.reports(alphabet)
    if reports is None:
        return {name: np.empty(0, dtype=object) for name in ("user", "item", "symbol", "policy")}
    ends = np.cumsum(alphabet.sizes)
    owner = np.searchsorted(ends, reports.values, side="right")
    symbols = reports.values.astype(np.int64) - (ends - alphabet.sizes)[owner]
    ids = np.array([policy.id for policy in alphabet.policies], dtype=object)
    users, items = reports.users.decoded(), reports.items.decoded()
    return {"user": users, "item": items, "symbol": symbols, "policy": ids[owner]}


def matrix_of(store: ReportStore, columns: Sequence[dict[str, Any]]) -> ReportMatrix:
    joined = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
    own = [(policy, joined["policy"] == policy.id) for policy in store.policies().values()]
    return ReportMatrix.of_parts(
        [(joined["user"][rows], joined["item"][rows], joined["symbol"][rows], policy) for policy, rows in own]
    )


@pytest.mark.parametrize("parts", [1, 2, 7, 1000])
def test_ranges_together_are_what_is_learned_from(
    filled: ReportStore, address: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_CHUNK", 7)  # so that the reports of a pair come in two chunks
    with device_ranges(address, parts) as cut:
        columns = [read_range(address, one, *filled.policies().values()) for one in cut]
    assert matrix_of(filled, columns).checksum == ReportMatrix.of_parts(filled.latest_reports()).checksum
    assert len(cut) == min(parts, filled.count("devices"))
    assert all(one.last < other.first for one, other in pairwise(cut))


def test_a_range_read_as_a_part_is_coded_as_all_reports_are(filled: ReportStore, address: str, rotated: Policy) -> None:
    alphabet = Alphabet.of(filled.policies().values())
    said = []
    for users, items, symbols, policy in filled.latest_reports():
        codes = alphabet.encode(np.asarray(symbols), alphabet.find(policy.id), "")
        said += zip(np.asarray(users).tolist(), list(items), codes.tolist(), strict=True)
    with device_ranges(address, 4) as cut:
        parts = [StoredPart(address, one) for one in cut]
        read = [part.reports(alphabet) for part in pickle.loads(pickle.dumps(parts))]  # noqa: S301 - our own
        found = [(each.users.decoded(), each.items.decoded(), each.values) for each in read if each is not None]
        with pytest.raises(ReportError, match=f"devices .* policy '{rotated.id[:12]}' was not given"):
            parts[0].reports(Alphabet.of(policy for policy in alphabet.policies if policy != rotated))
    rows = [row for columns in found for row in zip(*(column.tolist() for column in columns), strict=True)]
    assert len(read) == 4
    assert sorted(rows) == sorted(said)
    assert all(sorted(each.items.distinct) == list(each.items.distinct) for each in read if each is not None)


def test_names_are_read_of_what_is_named_alone(
    filled: ReportStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_NAMES_AT_ONCE", 2)  # so that they are asked for several times
    filled.put_items([Item("nobody rates it", "a title")])
    with device_ranges(address, 1) as (whole,):
        keys, names = ranges._read(address, whole)
    assert sorted(names["item"]) == np.unique(keys["item"]).tolist()
    assert "nobody rates it" not in names["item"].values()


def test_a_part_does_not_show_the_password() -> None:
    part = StoredPart("postgresql://somebody:hunter2@somewhere/tacit", DeviceRange(1, 7, 3))
    assert "hunter2" not in repr(part)
    assert part.label == "devices 1 to 7"


def test_ranges_have_about_equally_many_reports(filled: ReportStore, address: str) -> None:
    with device_ranges(address, 5) as cut:
        pass
    assert len(cut) == 5
    counts = [one.reports for one in cut]
    assert sum(counts) == filled.count("reports")
    most_of_one = 2 * 30
    assert all(abs(count - sum(counts) / 5) < most_of_one for count in counts)


def test_there_are_more_ranges_where_they_would_have_too_many_reports(filled: ReportStore, address: str) -> None:
    every = filled.count("reports")
    for most, parts in ((every, 2), (every // 2, 3), (every // 7, 8)):
        with device_ranges(address, 2, most=most) as cut:
            assert len(cut) == parts
            assert sum(one.reports for one in cut) == every


def test_an_empty_store_has_no_ranges(store: ReportStore, address: str) -> None:
    assert store.latest_reports() == []
    with device_ranges(address, 3) as cut:
        assert cut == []


def test_a_range_whose_devices_are_gone_has_no_rows(filled: ReportStore, address: str) -> None:
    key = filled.device_key(token_hash(5))
    assert key is not None
    GroupWriter(filled.database, most_reports=1000).delete_device(token_hash(5))
    part = StoredPart(address, DeviceRange(key, key, 1))
    assert part.reports(Alphabet.of(filled.policies().values())) is None


def test_postgres_shows_one_state_whatever_happens_meanwhile(
    postgres_address: str, request: pytest.FixtureRequest, policy: Policy
) -> None:
    store = ReportStore.open(postgres_address)
    request.addfinalizer(store.close)
    store.adopt(policy)
    store.put_items([Item(str(number), "a title") for number in range(100)])
    writer, rng = GroupWriter(store.database, most_reports=1000), np.random.default_rng(6)
    writer.store([said_by(device, 1, rng, 64) for device in range(20)])
    before = ReportMatrix.of_parts(store.latest_reports())
    with device_ranges(postgres_address, 3) as cut:
        columns = [read_range(postgres_address, cut[0], policy)]
        writer.delete_device(token_hash(3))
        writer.store([said_by(device, 1, rng, 64) for device in range(10, 40)])
        columns += [read_range(postgres_address, one, policy) for one in cut[1:]]
        again = [read_range(postgres_address, one, policy) for one in cut]  # as Spark does when a machine is lost
    assert ReportMatrix.of_parts(store.latest_reports()).checksum != before.checksum
    assert matrix_of(store, columns).checksum == matrix_of(store, again).checksum == before.checksum
    with pytest.raises(StoreError, match="snapshot"):
        read_range(postgres_address, cut[0], policy)


def test_a_state_that_is_gone_once_all_was_read_is_no_matter(
    postgres_address: str, request: pytest.FixtureRequest, policy: Policy
) -> None:
    store = ReportStore.open(postgres_address)
    request.addfinalizer(store.close)
    store.adopt(policy)
    store.put_items([Item(str(number), "a title") for number in range(100)])
    GroupWriter(store.database, most_reports=1000).store([said_by(1, 1, np.random.default_rng(6), 64)])
    end = text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE state = 'idle in transaction' AND datname = current_database()"
    )
    with device_ranges(postgres_address, 3) as cut:
        before = read_range(postgres_address, cut[0], policy)
        with store.database.writing() as connection:
            assert connection.scalar(end) == 1
        with pytest.raises(StoreError):
            read_range(postgres_address, cut[0], policy)
    assert len(before["user"])
    with pytest.raises(StoreError, match="at the end"), device_ranges(postgres_address, 3):
        raise StoreError("at the end")


def test_sqlite_shows_whole_devices_of_when_a_range_is_read_and_no_new_ones(
    sqlite_address: str, request: pytest.FixtureRequest, policy: Policy
) -> None:
    store = ReportStore.open(sqlite_address)
    request.addfinalizer(store.close)
    store.adopt(policy)
    store.put_items([Item(str(number), "a title") for number in range(100)])
    writer = GroupWriter(store.database, most_reports=1000)
    for device in range(4):  # one after the other, for their keys
        writer.store([Batch(token_hash(device), 1, 64, [Said("1", 3, 0)])])
    with device_ranges(sqlite_address, 2) as cut:
        writer.delete_device(token_hash(0))
        assert writer.is_tidy  # what was deleted does not stay in the log for as long as ranges are read
        writer.store([Batch(token_hash(device), 1, 64, [Said("1", 5, 1), Said("2", 4, 0)]) for device in (3, 4)])
        columns = [read_range(sqlite_address, one, policy) for one in cut]
    rows = [zip(*(one[name].tolist() for name in ("user", "item", "symbol")), strict=True) for one in columns]
    assert [list(each) for each in rows] == [[(2, "1", 3)], [(3, "1", 3), (4, "1", 5), (4, "2", 4)]]


@pytest.mark.parametrize("parts", [0, -1, ranges.MOST_PARTS + 1])
def test_an_impossible_number_of_ranges_is_refused(store: ReportStore, address: str, parts: int) -> None:
    with (
        pytest.raises(InvalidInputError, match=f"{parts} ranges of devices are not 1 to"),
        device_ranges(address, parts),
    ):
        pass
    assert store.count("devices") == 0


@pytest.mark.parametrize("snapshot", ["", "'; DROP TABLE reports; --", "00000003-0000001B-1'", "00-1\n"])
def test_a_name_of_a_state_that_is_none_is_never_sent(filled: ReportStore, address: str, snapshot: str) -> None:
    with pytest.raises(InvalidInputError, match="names no state"):
        read_range(address, DeviceRange(1, 2, 1, snapshot), *filled.policies().values())
    assert filled.count("reports")
