"""Every store keeps what the tests here say, on both databases."""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from tacit.errors import InvalidInputError, SchemaError, StoreError
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import Batch, Item, Outcome, ReportStore, migrate, schema
from tacit.provider.store.database import open_database
from tacit.provider.store.writing import GroupWriter, Remembered, Said

if TYPE_CHECKING:
    from pathlib import Path

SYMBOLS = 64


def token_hash(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def batch(device: int, *said: tuple[str, int, int], policy: int = 1) -> Batch:
    return Batch(token_hash(device), policy, SYMBOLS, [Said(*one) for one in said])


@pytest.fixture
def writer(store: ReportStore) -> GroupWriter:
    return GroupWriter(store.database, most_reports=50)


def test_a_batch_is_stored_once_and_every_report_accounted_for(store: ReportStore, writer: GroupWriter) -> None:
    said = batch(1, ("1", 3, 0), ("2", SYMBOLS, 0), ("no such item", 1, 0), ("7", 5, 0))
    rejected = ((1, "unknown-symbol"), (2, "unknown-item"))
    assert writer.store([said]) == [Outcome(2, 0, rejected)]
    assert writer.store([said]) == [Outcome(0, 2, rejected)]
    kept = store.reports_of(token_hash(1))
    assert kept is not None
    assert [(one.item, one.symbol, one.revision) for one in kept] == [("1", 3, 0), ("7", 5, 0)]


def test_the_first_write_wins_within_a_batch_and_after_it(store: ReportStore, writer: GroupWriter) -> None:
    assert writer.store([batch(1, ("1", 9, 0), ("1", 3, 0))]) == [Outcome(1, 1)]
    assert writer.store([batch(1, ("1", 4, 0))]) == [Outcome(0, 1)]
    assert [one.symbol for one in store.reports_of(token_hash(1)) or []] == [9]


def test_a_group_counts_each_device_by_itself(writer: GroupWriter) -> None:
    writer.store([batch(1, ("1", 1, 0))])
    group = [batch(1, ("1", 1, 0), ("2", 1, 0)), batch(2, ("1", 1, 0)), batch(3, ("nothing", 1, 0))]
    assert writer.store(group) == [Outcome(1, 1), Outcome(1, 0), Outcome(0, 0, ((0, "unknown-item"),))]


def test_a_device_that_said_nothing_usable_is_not_kept(store: ReportStore, writer: GroupWriter) -> None:
    writer.store([batch(1, ("nothing", 1, 0)), batch(2, ("1", SYMBOLS, 0))])
    assert store.count("devices") == 0


def test_a_device_has_no_more_reports_than_it_may(store: ReportStore, writer: GroupWriter) -> None:
    first = [(str(number), 1, 0) for number in range(45)]
    assert writer.store([batch(1, *first)]) == [Outcome(45, 0)]
    more = [(str(number), 1, 0) for number in range(40, 60)]
    (outcome,) = writer.store([batch(1, *more)])
    assert (outcome.accepted, outcome.duplicates) == (5, 5)
    assert outcome.rejected == tuple((index, "too-many-reports") for index in range(10, 20))
    assert writer.store([batch(1, *first)]) == [Outcome(0, 45)]  # what was said before may be repeated
    assert store.count("reports") == 50
    afresh = GroupWriter(store.database, most_reports=50)  # a restart does not make room
    assert afresh.store([batch(1, ("99", 1, 0))]) == [Outcome(0, 0, ((0, "too-many-reports"),))]


def test_the_newest_revision_is_what_is_learned_from(store: ReportStore, writer: GroupWriter, policy: Policy) -> None:
    writer.store([batch(1, ("1", 3, 0), ("1", 8, 2), ("1", 5, 1), ("2", 1, 0)), batch(2, ("1", 4, 0))])
    ((users, items, symbols, used),) = store.latest_reports()
    assert used == policy
    found = set(zip(np.asarray(users).tolist(), list(items), np.asarray(symbols).tolist(), strict=True))
    assert {(item, symbol) for _, item, symbol in found} == {("1", 8), ("2", 1), ("1", 4)}
    assert len(found) == 3


def test_policies_rotate_and_old_reports_stay_usable(store: ReportStore, writer: GroupWriter, policy: Policy) -> None:
    other = Policy.make("randomized-response", RatingScale.parse("1:5:1"), "2")
    writer.store([batch(1, ("1", 3, 0))])
    key = store.adopt(other)
    assert store.adopt(other) == key
    writer.store([batch(1, ("2", 3, 0), policy=key), batch(2, ("1", 4, 0), policy=key)])
    assert list(store.policies().values()) == [policy, other]
    assert {part[3].id: len(part[0]) for part in store.latest_reports()} == {policy.id: 1, other.id: 2}
    assert store.reports_by_policy() == {policy.id: 1, other.id: 2}
    assert sorted(store.epsilon_spent().items()) == [(2, 1), (3, 1)]
    with pytest.raises(StoreError, match="cannot come back"):
        store.adopt(policy)
    with pytest.raises(StoreError, match="on the scale 1:5:1, not 1:10:1"):
        store.adopt(Policy.make("duchi", RatingScale.parse("1:10:1"), "1"))


def test_what_is_deleted_is_gone_and_its_key_never_given_again(store: ReportStore, writer: GroupWriter) -> None:
    writer.store([batch(1, ("1", 3, 0)), batch(2, ("1", 3, 0))])
    old = store.device_key(token_hash(2))
    assert writer.delete_device(token_hash(2))
    assert not writer.delete_device(token_hash(2))
    assert store.reports_of(token_hash(2)) is None
    assert (store.count("reports"), store.count("devices")) == (1, 1)
    writer.store([batch(2, ("1", 3, 0))])
    new = store.device_key(token_hash(2))
    assert new is not None
    assert old is not None
    assert new > old


def test_a_device_that_another_provider_deleted_is_met_anew(store: ReportStore, writer: GroupWriter) -> None:
    writer.store([batch(1, ("1", 3, 0))])
    GroupWriter(store.database, most_reports=50).delete_device(token_hash(1))
    assert writer.store([batch(1, ("1", 4, 0)), batch(2, ("1", 4, 0))]) == [Outcome(1, 0), Outcome(1, 0)]
    assert [one.symbol for one in store.reports_of(token_hash(1)) or []] == [4]


def test_two_writers_at_once_store_everything_once(address: str, policy: Policy) -> None:
    store = ReportStore.open(address)
    store.adopt(policy)
    store.put_items([Item(str(number), "") for number in range(60)])
    groups = [[batch(device, *((str(item), 1, 0) for item in range(20))) for device in range(8)] for _ in range(6)]

    def work(share: list[list[Batch]]) -> Counter[str]:
        own = open_database(address)
        writer, sums = GroupWriter(own, most_reports=50), Counter[str]()
        for group in share:
            for outcome in writer.store(group):
                sums.update(accepted=outcome.accepted, duplicates=outcome.duplicates)
        own.close()
        return sums

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(work, [groups[:3], groups[3:]]))
    assert sum(both, Counter[str]()) == {"accepted": 160, "duplicates": 800}
    assert store.count("reports") == 160
    store.close()


def test_tallies_add_up(store: ReportStore, writer: GroupWriter) -> None:
    writer.store([batch(1, ("1", 3, 0), ("x", 3, 0))], Counter({"malformed": 2}))
    writer.store([batch(1, ("1", 3, 0))], Counter({"malformed": 1}))
    sums: Counter[str] = Counter()
    for _, code, count in store.tallies(since=0):
        sums[code] += count
    assert sums == {"accepted": 1, "duplicate": 1, "unknown-item": 1, "malformed": 3}


def test_items_are_added_changed_and_listed_in_pages(store: ReportStore) -> None:
    assert store.put_items([Item("0", "Another title"), Item("new", "New"), Item("1", "Title 1")]) == (1, 1)
    first = store.items(limit=60)
    rest = store.items(after=first[-1][0], limit=60)
    assert [item.id for _, item in first + rest] == [*map(str, range(100)), "new"]
    assert first[0][1] == Item("0", "Another title")


def test_popular_items_come_first(store: ReportStore, writer: GroupWriter) -> None:
    writer.store([batch(device, ("7", 1, 0), (str(device), 1, 0)) for device in (1, 2, 3)])
    writer.store([batch(device, ("9", 1, 0)) for device in (4, 5)])
    assert store.popular_items(5, least=1) == ["7", "9", "1", "2", "3"]
    assert store.popular_items(4, least=2) == ["7", "9", "0", "1"]  # one report does not show


def test_changes_are_counted_whichever_way_they_go(store: ReportStore, writer: GroupWriter) -> None:
    assert store.changes() == 0
    writer.store([batch(1, ("7", 1, 0), ("8", 1, 0)), batch(2, ("7", 1, 0))])
    assert store.changes() == 3
    writer.store([batch(1, ("7", 1, 0))])
    assert store.changes() == 3
    writer.delete_device(token_hash(2))
    assert store.changes() == 4


def test_a_group_that_failed_leaves_nothing_remembered(sqlite_address: str, policy: Policy) -> None:
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    store.put_items([Item(str(number), "x" * 400) for number in range(60)])
    writer, many = GroupWriter(store.database, most_reports=50), [(str(number), 1, 0) for number in range(40)]
    writer.store([batch(0, ("1", 1, 0))])

    def limit_pages(pages: int) -> None:
        with store.database.writer.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with store.database.reading() as connection:
        pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    limit_pages(pages)  # the disk is full
    failing = [batch(device, *many) for device in range(1, 30)]
    with pytest.raises(StoreError, match="full"):
        writer.store(failing)
    limit_pages(2**30)
    assert writer.store([batch(99, ("1", 7, 0))]) == [Outcome(1, 0)]  # a new device, perhaps with a key given before
    assert writer.store([batch(1, ("2", 8, 0))]) == [Outcome(1, 0)]
    assert [(one.item, one.symbol) for one in store.reports_of(token_hash(99)) or []] == [("1", 7)]
    assert [(one.item, one.symbol) for one in store.reports_of(token_hash(1)) or []] == [("2", 8)]
    store.close()


def test_a_group_needs_more_items_than_are_remembered(writer: GroupWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.provider.store.writing._MOST_REMEMBERED", 5)
    assert writer.store([batch(1, *((str(item), 1, 0) for item in range(40)))]) == [Outcome(40, 0)]


def test_a_deletion_does_not_wait_for_a_reader_but_ends_after_it(
    sqlite_address: str, policy: Policy, tmp_path: Path
) -> None:
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    store.put_items([Item("1", "One")])
    writer = GroupWriter(store.database, most_reports=50)
    writer.store([batch(1, ("1", 3, 0))])
    with store.database.reading() as connection:
        connection.execute(text("SELECT * FROM devices")).all()
        assert writer.delete_device(token_hash(1))
        assert not writer.is_tidy
    writer.tidy()
    assert writer.is_tidy
    content = b"".join(path.read_bytes() for path in tmp_path.glob("tacit.db*"))
    assert token_hash(1) not in content
    store.close()


def test_only_its_owner_can_read_the_file(sqlite_address: str, tmp_path: Path) -> None:
    store = ReportStore.open(sqlite_address)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("tacit.db*")} == {0o600}
    store.close()


@pytest.mark.parametrize(
    ("item", "title"), [("", "x"), ("a" * 201, "x"), ("a\x00", "x"), ("\ud800", "x"), ("a", "x" * 501), ("a", "\n")]
)
def test_items_that_could_not_be_reported_on_or_shown_are_refused(item: str, title: str) -> None:
    with pytest.raises(InvalidInputError):
        Item(item, title)


def test_a_secret_is_drawn_once(store: ReportStore) -> None:
    assert store.secret("one") == store.secret("one")
    assert store.secret("one") != store.secret("other")
    assert len(store.secret("one")) == 32


def test_the_migrations_lead_to_the_schema(store: ReportStore) -> None:
    with store.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_a_database_of_another_schema_is_refused(address: str) -> None:
    ReportStore.open(address).close()
    database = open_database(address)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaError, match="newer than this tacit"):
        migrate.check(database)
    with database.writing() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(SchemaError, match="not tacit's"):
        migrate.check(database)
    database.close()


def test_opening_twice_changes_nothing(address: str) -> None:
    ReportStore.open(address).close()
    store = ReportStore.open(address)
    assert store.policies() == {}
    assert store.latest_reports() == []
    assert store.size() > 0
    store.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    groups=st.lists(
        st.dictionaries(
            st.integers(0, 3),
            st.lists(
                st.tuples(
                    st.sampled_from(["1", "2", "3", "x", "'; DROP TABLE reports; --"]),
                    st.integers(0, SYMBOLS + 1),
                    st.integers(0, 2),
                ),
                min_size=1,
                max_size=6,
            ),
            min_size=1,
        ),
        max_size=4,
    )
)
def test_whatever_comes_a_store_does_what_a_dictionary_would(
    sqlite_address: str, policy: Policy, groups: list[dict[int, list[tuple[str, int, int]]]]
) -> None:
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    store.put_items([Item(name, name) for name in "123"])
    writer, said = GroupWriter(store.database, most_reports=5), dict[tuple[int, str, int], int]()
    for device in range(4):
        writer.delete_device(token_hash(device))
    for group in groups:
        outcomes = writer.store([batch(device, *rows) for device, rows in group.items()])
        for (device, rows), outcome in zip(group.items(), outcomes, strict=True):
            before = len(said)
            for item, symbol, revision in rows:
                full = sum(key[0] == device for key in said) >= 5 and (device, item, revision) not in said
                if item in "123" and symbol < SYMBOLS and not full:
                    said.setdefault((device, item, revision), symbol)
            assert outcome.accepted == len(said) - before
            assert outcome.accepted + outcome.duplicates + len(outcome.rejected) == len(rows)
    for device in range(4):
        kept = {(device, one.item, one.revision): one.symbol for one in store.reports_of(token_hash(device)) or []}
        assert kept == {key: symbol for key, symbol in said.items() if key[0] == device}
    store.close()


def test_deleted_reports_cannot_be_read_off_the_file(sqlite_address: str, policy: Policy, tmp_path: Path) -> None:
    store = ReportStore.open(sqlite_address)
    store.adopt(policy)
    store.put_items([Item("1", "One")])
    writer = GroupWriter(store.database, most_reports=50)
    writer.store([batch(1, ("1", 3, 0))])
    files = ["tacit.db", "tacit.db-wal"]
    content = b"".join((tmp_path / name).read_bytes() for name in files)
    assert token_hash(1) in content
    writer.delete_device(token_hash(1))
    content = b"".join((tmp_path / name).read_bytes() for name in files if (tmp_path / name).exists())
    assert token_hash(1) not in content
    store.close()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("tacit.db", "no address"),
        ("sqlite://", "not a plain file"),
        ("sqlite:///:memory:", "not a plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "not a plain file"),
        ("sqlite:////nowhere/tacit.db", "no folder"),
        ("mysql://localhost/x", "not a database that tacit knows"),
        ("oracle+x://", "not a database that tacit knows"),
        ("postgresql://u:secret@127.0.0.1:1/x", "check the database"),
        ("postgresql://127.0.0.1:1/x?user=u&password=secret", "check the database"),
        ("postgresql://127.0.0.1:1/x?user=u&scram_client_key=secret", "check the database"),
        ("postgresql://u:secret@host:port/x", "no address"),
        ("postgresql://u:very@secret@127.0.0.1:1/x", "more than one @"),
    ],
)
def test_a_wrong_address_is_refused_in_one_line(wrong: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as refused:
        ReportStore.open(wrong)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tacit.db").write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match="not a database"):
        ReportStore.open(f"sqlite:///{tmp_path / 'tacit.db'}")


def test_remembering_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.provider.store.writing._MOST_REMEMBERED", 3)
    kept = Remembered[int, int]()
    for number in range(5):
        kept.remember({number: number})
    assert list(kept) == [2, 3, 4]
