from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.device import perturb_file
from tacit.errors import FileError, InvalidInputError, ReportError, TableError
from tacit.learning import cells, reports
from tacit.learning.matrix import ReportMatrix, Rows, read_reports
from tacit.learning.reports import Alphabet
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")
LAPLACE = Policy.make("bounded-laplace", STARS, "1")
BIT = Policy.make("duchi", STARS, "1")
DIRECT = Policy.make("randomized-response", STARS, "2")
FINE = Policy.make("randomized-response", RatingScale.parse("1:100:0.25"), "3")

NUMBERS = st.integers(-5, 40)
TEXTS = st.text("ab\u00e9\U0001d11e07-", min_size=1, max_size=3)
SYMBOLS = st.integers(0, 63)
PAIRS = st.one_of(
    st.dictionaries(st.tuples(users, items), SYMBOLS, min_size=1, max_size=60)
    for users, items in ((NUMBERS, NUMBERS), (TEXTS, TEXTS), (NUMBERS, TEXTS))
)
Pairs = dict[tuple[Any, Any], Any]


def by_popularity(ids: list[Any], catalogue: Sequence[Any] = ()) -> list[Any]:
    counts = Counter(ids)
    return sorted(set(ids) | set(catalogue), key=lambda name: (-counts[name], name))


def cells_of(matrix: ReportMatrix, rows: Rows) -> list[tuple[int, int, float]]:
    owners = np.repeat(np.arange(len(rows)), rows.counts())
    return list(zip(owners.tolist(), rows.columns.tolist(), matrix.values_of(rows).tolist(), strict=True))


def assert_is(
    matrix: ReportMatrix, expected: Pairs, users: Sequence[Any] | None = None, items: Sequence[Any] | None = None
) -> None:
    """Compare a matrix with a dictionary from user and item to value, cell by cell."""
    assert matrix.users.ids.tolist() == by_popularity([user for user, _ in expected], users or ())
    assert matrix.items.ids.tolist() == by_popularity([item for _, item in expected], items or ())
    user_at, item_at = matrix.users.ids.tolist().index, matrix.items.ids.tolist().index
    triples = [(user_at(user), item_at(item), np.float32(value)) for (user, item), value in expected.items()]
    assert cells_of(matrix, matrix.by_user) == sorted(triples)
    assert cells_of(matrix, matrix.by_item) == sorted((item, user, value) for user, item, value in triples)
    assert matrix.shape == (len(matrix.users), len(matrix.items)) == (len(matrix.by_user), len(matrix.by_item))
    assert matrix.reports == len(expected)
    values = np.array([value for _, _, value in triples], dtype=np.float64)
    largest = max(float(np.abs(values).max()), 1.0)  # large numbers may cancel, and leave their rounding
    assert matrix.mean == pytest.approx(values.mean(), rel=1e-12, abs=1e-12 * largest)
    assert matrix.variance == pytest.approx(values.var(), rel=1e-12, abs=1e-12 * largest**2)


def columns(pairs: Pairs) -> tuple[list[Any], list[Any], list[Any]]:
    return [user for user, _ in pairs], [item for _, item in pairs], list(pairs.values())


def arrow(pairs: Pairs, **more: Any) -> pa.Table:
    users, items, symbols = columns(pairs)
    return pa.table({"user": users, "item": items, "symbol": symbols} | more)


def meant(pairs: Pairs, policy: Policy = LAPLACE) -> Pairs:
    return {pair: policy.channel.symbol_values[symbol] for pair, symbol in pairs.items()}


def save(table: pa.Table, path: Path, policy: Policy | None = None) -> Path:
    if path.suffix == ".csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table.replace_schema_metadata({"tacit.policy": policy.id} if policy else {}), path)
    return path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@given(PAIRS)
def test_a_matrix_holds_what_a_dictionary_would(pairs: Pairs) -> None:
    matrix = ReportMatrix.of_symbols(*columns(pairs), LAPLACE)
    assert_is(matrix, meant(pairs))
    assert matrix.by_user.values.dtype == np.uint8
    assert matrix.policies == (LAPLACE,)
    assert matrix.scale == STARS
    assert_is(ReportMatrix.of_arrow(arrow(pairs, policy=[LAPLACE.id] * len(pairs)), [LAPLACE]), meant(pairs))


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_leaves_no_trace(pairs: Pairs, random: Any) -> None:
    shuffled = list(pairs.items())
    random.shuffle(shuffled)
    one = ReportMatrix.of_symbols(*columns(pairs), LAPLACE)
    other = ReportMatrix.of_symbols(*columns(dict(shuffled)), LAPLACE)
    assert one.checksum == other.checksum
    for mine, its in ((one.by_user, other.by_user), (one.by_item, other.by_item)):
        assert mine.columns.tolist() == its.columns.tolist()
        assert mine.values.tolist() == its.values.tolist()


@given(PAIRS, st.lists(NUMBERS, max_size=9), st.lists(NUMBERS, max_size=9))
def test_a_catalogue_gives_every_id_an_index(pairs: Pairs, users: list[int], items: list[int]) -> None:
    user, item = next(iter(pairs))
    users, items = [type(user)(name) for name in users], [type(item)(name) for name in items]
    matrix = ReportMatrix.of_symbols(*columns(pairs), LAPLACE, catalogue_users=users, catalogue_items=items)
    assert_is(matrix, meant(pairs), users, items)
    numbers = ReportMatrix.of_values(*columns(pairs), STARS, catalogue_users=users, catalogue_items=items)
    assert_is(numbers, pairs, users, items)


def test_a_catalogue_of_text_makes_the_ids_text() -> None:
    matrix = ReportMatrix.of_symbols([10, 9], [1, 1], [3, 4], LAPLACE, catalogue_users=["9", "x", "x"])
    assert matrix.users.ids.tolist() == ["10", "9", "x"]
    assert matrix.items.ids.tolist() == [1]


@given(st.dictionaries(st.tuples(NUMBERS, NUMBERS), st.floats(width=32, min_value=-1e6, max_value=1e6), min_size=1))
def test_plain_numbers_need_not_be_on_the_scale(pairs: Pairs) -> None:
    matrix = ReportMatrix.of_values(*columns(pairs), STARS)
    assert_is(matrix, pairs)
    assert matrix.symbol_values is None
    assert matrix.policies == ()
    assert matrix.by_item.values.dtype == np.float32


def test_the_moments_are_those_of_double_precision() -> None:
    rng = np.random.default_rng(0)
    users, values = np.arange(3_000_000), (1e4 + rng.standard_normal(3_000_000)).astype(np.float32)
    matrix = ReportMatrix.of_values(users, users % 1000, values, STARS)
    assert matrix.mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-13)
    assert matrix.variance == pytest.approx(values.var(dtype=np.float64), rel=1e-10)
    symbols = rng.integers(0, 64, 3_000_000)
    matrix = ReportMatrix.of_symbols(users, users % 1000, symbols, LAPLACE)
    meaning = LAPLACE.channel.symbol_values.astype(np.float32).astype(np.float64)[symbols]
    assert matrix.mean == pytest.approx(meaning.mean(), rel=1e-12)
    assert matrix.variance == pytest.approx(meaning.var(), rel=1e-12)


def test_ties_are_broken_by_number_or_by_code_point() -> None:
    assert ReportMatrix.of_symbols([10, 9, -1], [1, 2, 3], [0, 0, 0], LAPLACE).users.ids.tolist() == [-1, 9, 10]
    texts = ["\U0001d11e", "\uff5e", "b", "10", "9", "B"]
    matrix = ReportMatrix.of_symbols(texts, range(6), [0] * 6, LAPLACE)
    assert matrix.users.ids.tolist() == ["10", "9", "B", "b", "\uff5e", "\U0001d11e"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, str, object])
def test_ids_come_in_any_kind_of_array(dtype: Any) -> None:
    ids = np.array([3, 5, 3]).astype(dtype)
    matrix = ReportMatrix.of_symbols(ids, [1, 1, 2], np.array([1, 2, 3], dtype=np.uint16), LAPLACE)
    assert [str(name) for name in matrix.users.ids] == ["3", "5"]
    assert matrix.users.ids.dtype == (object if dtype is str else np.int64)


def test_numbers_beyond_64_bits_are_ids_in_text() -> None:
    users = np.array([2**64 - 1, 5, 10], dtype=np.uint64)
    matrix = ReportMatrix.of_arrow(
        pa.table({"user": users, "item": [1, 1, 1], "symbol": [0, 1, 2], "policy": [LAPLACE.id] * 3}), [LAPLACE]
    )
    assert matrix.users.ids.tolist() == ["10", str(2**64 - 1), "5"]
    assert matrix.values_of(matrix.by_user).tolist() == LAPLACE.channel.symbol_values[[2, 0, 1]].astype("f4").tolist()


def test_the_arrays_are_of_the_promised_kinds_and_cannot_be_changed() -> None:
    matrix = ReportMatrix.of_symbols([1, 2], [1, 1], [3, 4], LAPLACE)
    for rows in (matrix.by_user, matrix.by_item):
        assert (rows.starts.dtype, rows.columns.dtype) == (np.int64, np.int32)
        assert not any(array.flags.writeable for array in (rows.starts, rows.columns, rows.values))
    assert matrix.symbol_values is not None
    assert not matrix.symbol_values.flags.writeable
    assert not matrix.users.ids.flags.writeable
    assert matrix.nbytes == (3 + 2) * 8 + 4 * (4 + 1) + (2 + 1) * 8 + 64 * 4


def test_a_part_of_the_rows_is_a_view() -> None:
    matrix = ReportMatrix.of_symbols([1, 1, 1, 2, 2, 3], [1, 2, 3, 1, 2, 1], range(6), LAPLACE)
    part = matrix.by_user.part(1, 3)
    assert len(part) == 2
    assert part.starts.tolist() == [0, 2, 3]
    assert part.counts().tolist() == [2, 1]
    assert np.shares_memory(part.values, matrix.by_user.values)
    meaning = LAPLACE.channel.symbol_values.astype(np.float32)
    assert matrix.values_of(part).tolist() == meaning[[3, 4, 5]].tolist()
    assert matrix.values_of(matrix.by_user.values[:2]).dtype == np.float32
    assert len(matrix.by_user.part(1, 1)) == 0


def test_the_checksum_tells_different_reports_apart() -> None:
    base = {"users": [1, 2, 2], "items": [5, 5, 6], "symbols": [1, 0, 1], "policy": BIT}
    changes: list[dict[str, Any]] = [
        {},
        {"users": [1, 3, 3]},
        {"users": ["1", "2", "2"]},
        {"items": [5, 5, 7]},
        {"items": [5, 6, 5]},
        {"symbols": [1, 1, 1]},
        {"policy": DIRECT},
        {"catalogue_users": [3]},
        {"catalogue_items": [7]},
    ]
    sums = [ReportMatrix.of_symbols(**base | change).checksum for change in changes]
    sums += [ReportMatrix.of_values([1], [5], [1], scale).checksum for scale in (STARS, FINE.scale)]
    assert len(set(sums)) == len(sums)
    assert all(len(text) == 64 for text in sums)


def test_the_checksum_stays_what_it_is() -> None:
    matrix = ReportMatrix.of_values([7, 8], ["a", "b"], [1.5, 2.5], STARS)
    assert matrix.checksum == "cdb80651de55c3afc40f8901dc56b5cd522b73d3d70708dcdd909562efde400e"
    matrix = ReportMatrix.of_parts([([7, 8, 7], ["é", "b", "b"], [1, 0, 1], BIT), ([9], ["b"], [4], DIRECT)])
    assert matrix.checksum == "ec871f2a290cc7d2bd01273990ab4e635d9a56f39449a613aee80a35fdb3b940"


def test_codes_of_several_policies_lie_side_by_side() -> None:
    policies = [LAPLACE, BIT, DIRECT]
    symbols, users = [63, 1, 4, 0], [1, 2, 3, 4]
    ids = [LAPLACE.id, BIT.id, DIRECT.id, BIT.id]
    table = pa.table({"user": users, "item": users, "symbol": symbols, "policy": ids})
    matrix = ReportMatrix.of_arrow(table, policies)
    assert [policy.id for policy in matrix.policies] == sorted(policy.id for policy in policies)
    assert matrix.symbol_values is not None
    assert matrix.symbol_values.tolist() == [
        np.float32(value) for policy in matrix.policies for value in policy.channel.symbol_values
    ]
    meaning = [
        float(policy.channel.symbol_values[symbol]) for policy, symbol in zip([*policies, BIT], symbols, strict=True)
    ]
    assert matrix.values_of(matrix.by_user).tolist() == pytest.approx(meaning, rel=1e-6)
    assert ReportMatrix.of_arrow(table, policies[::-1] * 2).checksum == matrix.checksum


def test_a_policy_that_no_report_used_is_left_out() -> None:
    pairs = {(1, 1): 1, (1, 2): 0}
    for policy in (LAPLACE, BIT, DIRECT):
        table = arrow(pairs).replace_schema_metadata({"tacit.policy": policy.id})
        matrix = ReportMatrix.of_arrow(table, [LAPLACE, BIT, DIRECT, Policy.make("duchi", STARS, "2")])
        assert matrix.policies == (policy,)
        assert matrix.by_user.values.tolist() == [1, 0]
        assert matrix.checksum == ReportMatrix.of_symbols(*columns(pairs), policy).checksum


@given(PAIRS, st.data())
def test_parts_give_what_one_table_with_a_column_of_policies_gives(pairs: Pairs, data: st.DataObject) -> None:
    policies = (LAPLACE, BIT, DIRECT)
    of_pair = {pair: data.draw(st.sampled_from(policies)) for pair in pairs}
    said = {pair: symbol % of_pair[pair].channel.weights.symbols for pair, symbol in pairs.items()}
    parts = []
    for policy in policies:
        own = {pair: symbol for pair, symbol in said.items() if of_pair[pair] is policy}
        if own:
            parts.append((*columns(own), policy))
    matrix = ReportMatrix.of_parts(parts)
    assert_is(matrix, {pair: of_pair[pair].channel.symbol_values[symbol] for pair, symbol in said.items()})
    table = arrow(said, policy=[policy.id for policy in of_pair.values()])
    assert matrix.checksum == ReportMatrix.of_arrow(table, policies).checksum


def test_parts_may_share_a_policy_and_have_catalogues() -> None:
    parts = [([1], [1], [3], LAPLACE), ([2], [1], [4], LAPLACE), ([3], [1], [1], BIT)]
    matrix = ReportMatrix.of_parts(iter(parts), catalogue_users=[7], catalogue_items=[8])
    assert matrix.shape == (4, 2)
    assert len(matrix.policies) == 2


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([], "no policy was given"),
        (
            [([1], [1], [3], LAPLACE), ([1], [1], [1], BIT)],
            "part 1 row 1 and reports of part 2 row 1 both report item 1",
        ),
        ([([1], [1], [3], LAPLACE), ([2, 3], [1, 1], [1, 2], BIT)], "part 2 row 2: symbol 2 is not one of 0 to 1"),
        ([([1], [1], [3], LAPLACE), ([], [], [], BIT)], "there are no reports"),
        ([([1], [1], [3], LAPLACE), ([2], [1], [3], FINE)], "use reports on one scale"),
    ],
)
def test_parts_are_checked_like_one(parts: list[Any], complaint: str) -> None:
    with pytest.raises(ReportError, match=complaint):
        ReportMatrix.of_parts(parts)


def test_codes_widen_with_the_alphabet() -> None:
    assert FINE.channel.weights.symbols > 256
    matrix = ReportMatrix.of_symbols([1, 1], [1, 2], [300, 2], FINE)
    assert matrix.by_user.values.dtype == np.uint16
    assert matrix.values_of(matrix.by_user).tolist() == [76.0, 1.5]
    laplaces = [Policy.make("bounded-laplace", STARS, epsilon) for epsilon in ("1", "2", "3", "4", "5")]
    table = pa.table({"user": range(5), "item": [1] * 5, "symbol": [63] * 5, "policy": [p.id for p in laplaces]})
    assert ReportMatrix.of_arrow(table, laplaces).by_user.values.dtype == np.uint16
    assert ReportMatrix.of_arrow(table[:4], laplaces).by_user.values.dtype == np.uint8


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["int64", "int16", "string"])
def test_files_give_what_arrays_give(tmp_path: Path, ending: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    cell = rng.choice(40 * 30, 500, replace=False)
    pairs = {(int(c) // 30, int(c) % 30): int(rng.integers(64)) for c in cell}
    table = arrow(pairs, policy=[LAPLACE.id] * len(pairs))
    for column, name in enumerate(("user", "item")):
        table = table.set_column(column, name, table[name].cast(kind))
    matrix = read_reports(save(table, tmp_path / f"reports.{ending}"), [LAPLACE])
    expected = (
        {(str(u), str(i)): v for (u, i), v in pairs.items()} if (ending, kind) == ("parquet", "string") else pairs
    )
    assert_is(matrix, meant(expected))


def test_reports_of_the_device_are_read(tmp_path: Path, data_file: Callable[[str], Path]) -> None:
    for name in ("reports.parquet", "reports.csv"):
        done = perturb_file(data_file("ml-100k.parquet"), LAPLACE, tmp_path / name)
        matrix = read_reports(str(tmp_path / name), [BIT, LAPLACE])
        assert matrix.reports == done.reports == 100_000
        assert matrix.shape == (943, 1682)
        counts = matrix.by_item.counts()
        assert (np.diff(counts) <= 0).all()
        assert counts[0] == 583
        assert matrix.items.id_at(0) == 50


def test_several_files_and_policies_make_one_matrix(tmp_path: Path) -> None:
    one, two = {(1, 1): 60, (1, 2): 3, (2, 1): 5}, {(1, 3): 1, (3, 1): 0}
    files = [
        save(arrow(one), tmp_path / "one.parquet", LAPLACE),
        save(arrow(two), tmp_path / "two.parquet", BIT),
        save(arrow({(3, 2): 1, (3, 3): 9}, policy=[BIT.id, LAPLACE.id]), tmp_path / "three.csv"),
    ]
    mixed = {(3, 2): BIT.channel.symbol_values[1], (3, 3): LAPLACE.channel.symbol_values[9]}
    matrix = read_reports(files, [LAPLACE, BIT])
    assert_is(matrix, meant(one) | meant(two, BIT) | mixed)
    assert read_reports(files[::-1], [BIT, LAPLACE]).checksum == matrix.checksum


def test_a_policy_column_is_believed_before_the_metadata(tmp_path: Path) -> None:
    file = save(arrow({(1, 1): 1}, policy=[BIT.id]), tmp_path / "reports.parquet", LAPLACE)
    assert read_reports(file, [LAPLACE, BIT]).policies == (BIT,)


def test_an_id_of_digits_with_a_zero_before_them_is_another_id(tmp_path: Path) -> None:
    rows = "".join(f"{user},{item},1,{BIT.id}\n" for user, item in [("7", "1"), ("07", "1"), ("7", "2")])
    matrix = read_reports(write(tmp_path / "reports.csv", f"user,item,symbol,policy\n{rows}"), [BIT])
    assert matrix.users.ids.tolist() == ["7", "07"]
    assert matrix.items.ids.tolist() == [1, 2]
    assert matrix.users.find([7, "7", "07"]).tolist() == [0, 0, 1]


def test_files_with_numbers_and_text_agree_on_an_id(tmp_path: Path) -> None:
    files = [
        save(arrow({(7, 1): 1, (10, 1): 1}), tmp_path / "numbers.parquet", BIT),
        save(arrow({("7", "x"): 0, ("9", "1"): 0}), tmp_path / "texts.parquet", BIT),
    ]
    expected = {("7", "1"): 1, ("10", "1"): 1, ("7", "x"): 0, ("9", "1"): 0}
    assert_is(read_reports(files, [BIT]), meant(expected, BIT))


def test_dictionaries_with_unused_or_repeated_entries_are_read() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([3, 1, 0, 2]), pa.array(["a", "b", "a", "d", "unused"]))
    table = pa.table({"user": users, "item": [1, 2, 3, 4], "symbol": [0, 1, 0, 1], "policy": [BIT.id] * 4})
    expected = {("d", 1): 0, ("b", 2): 1, ("a", 3): 0, ("a", 4): 1}
    assert_is(ReportMatrix.of_arrow(table, [BIT]), meant(expected, BIT))
    chunked = pa.concat_tables([table[:1], table[1:1], table[1:]])
    assert_is(ReportMatrix.of_arrow(chunked, [BIT]), meant(expected, BIT))


def test_a_missing_entry_of_a_dictionary_is_missing() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    table = pa.table({"user": users, "item": [1, 2], "symbol": [0, 1], "policy": [BIT.id] * 2})
    with pytest.raises(TableError, match="reports row 2: user is missing"):
        ReportMatrix.of_arrow(table, [BIT])


def test_many_row_groups_and_other_columns_are_no_matter(tmp_path: Path) -> None:
    pairs = {(user, item): 1 for user in range(20) for item in range(user + 1)}
    table = arrow(pairs, policy=[BIT.id] * len(pairs), note=[["x"]] * len(pairs))
    pq.write_table(table, tmp_path / "reports.parquet", row_group_size=7)
    assert_is(read_reports(tmp_path / "reports.parquet", [BIT]), meant(pairs, BIT))


FIRST = LAPLACE.id[:12]
BAD_SYMBOLS: dict[str, tuple[Any, Any, Any, str]] = {
    "above": ([1, 2, 3], [1, 2, 3], [0, 64, 65], f"reports row 2: symbol 64 is not one of 0 to 63 of policy {FIRST}"),
    "below": ([1], [1], [-1], "row 1: symbol -1 is not one of"),
    "fraction": ([1, 2], [1, 1], [1.0, 1.5], r"row 2: symbol '1.5' is of double, not whole numbers"),
    "not a number": ([1, 2], [1, 1], [1.0, np.nan], "row 2: symbol 'nan'"),
    "word": ([1, 2], [1, 1], [1, "two"], "row 2: symbol 'two' is not a whole number"),
    "truth": ([1], [1], [True], "row 1: symbol 'True' is of bool"),
    "missing": ([1, 2], [1, 1], [1, None], "row 2: symbol is missing"),
    "strange": ([1, 2], [1, 1], [1, {}], "symbol has entries of several kinds"),
    "table": ([1], [1], [[1]], r"an array of shape \(1, 1\) of symbols"),
    "fewer symbols": ([1, 2], [1, 1], [1], "2 users, 2 items and 1 symbols; a report has one of each"),
    "fewer items": ([1, 2], [1], [1, 1], "2 users, 1 items and 2 symbols"),
    "nothing": ([], [], [], "there are no reports"),
    "a user that is a fraction": ([1, 2.5], [1, 1], [1, 1], r"reports: user '2.5' \(row 2\) is no id"),
    "an item that is missing": ([1, 2], ["a", None], [1, 1], r"reports: item 'None' \(row 2\) is no id"),
    "users in floats": (np.ones(2), [1, 2], [1, 1], r"users in an array of shape \(2,\) and float64"),
    "an empty id": (["a", ""], [1, 1], [1, 1], "'user' has an empty id"),
    "half a character": (["\ud800"], [1], [1], "user has entries of several kinds or none"),
    "twice": ([4, 5, 4], [7, 7, 7], [1, 2, 3], "reports rows 1 and 3 both report item 7 for user 4; keep one"),
    "twice as text": (["7", 7], ["x", "x"], [1, 1], "rows 1 and 2 both report item x for user 7"),
}


@pytest.mark.parametrize("case", BAD_SYMBOLS)
def test_bad_symbols_are_refused(case: str) -> None:
    users, items, symbols, complaint = BAD_SYMBOLS[case]
    with pytest.raises((ReportError, TableError), match=complaint):
        ReportMatrix.of_symbols(users, items, symbols, LAPLACE)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([1.0, np.nan], "reports row 2: value nan is not finite"),
        ([-np.inf, 1.0], "row 1: value -inf is not finite"),
        ([1.0, 1e39], r"row 2: value 1e\+39 is not finite in single precision"),
        (["1", "2"], "plain numbers"),
        ([True, False], "array of bool"),
        ([1.0], "2 users, 2 items and 1 values"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
    ],
)
def test_bad_values_are_refused(values: Any, complaint: str) -> None:
    with pytest.raises(ReportError, match=complaint):
        ReportMatrix.of_values([1, 2], [1, 2], values, STARS)
    with pytest.raises(ReportError, match="no reports"):
        ReportMatrix.of_values([], [], [], STARS)


@pytest.mark.parametrize("seed", range(5))
def test_any_pair_that_is_there_twice_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.array([*rng.choice(100, 60, replace=False), -1])
    first, second = sorted(rng.choice(61, 2, replace=False).tolist())
    rows[-1], rows[second] = rows[second], rows[-1]
    rows[second] = rows[first]
    users, items = rows // 10, rows % 10
    complaint = f"rows {first + 1} and {second + 1} both report item {items[first]} for user {users[first]};"
    with pytest.raises(ReportError, match=complaint):
        ReportMatrix.of_values(users, items, rows, STARS)


BAD_FILES = {
    "symbol above": ("user,item,symbol,policy\n1,1,1,BIT\n1,2,2,BIT\n", "r.csv row 2: symbol 2 is not one of 0 to 1"),
    "of its own policy": ("user,item,symbol,policy\n1,1,5,LAPLACE\n1,2,5,BIT\n", "r.csv row 2: symbol 5"),
    "negative": ("user,item,symbol,policy\n1,1,-1,BIT\n", "row 1: symbol -1 is not one of"),
    "fraction": ("user,item,symbol,policy\n1,1,0,BIT\n1,2,0.5,BIT\n", "row 2: symbol '0.5' is not a whole number"),
    "second spelling": ("user,item,symbol,policy\n1,1,01,BIT\n", "row 1: symbol '01' is not a whole number"),
    "missing symbol": ("user,item,symbol,policy\n1,1,,BIT\n", "row 1: symbol is missing"),
    "missing user": ("user,item,symbol,policy\n1,1,1,BIT\n,1,1,BIT\n", "row 2: user is missing"),
    "missing policy": ("user,item,symbol,policy\n1,1,1,BIT\n1,2,1,\n", "row 2: policy is missing"),
    "other policy": (
        "user,item,symbol,policy\n1,1,1,BIT\n1,2,1,OTHER\n",
        f"row 2: policy {DIRECT.id[:12]!r} was not given",
    ),
    "a number for a policy": ("user,item,symbol,policy\n1,1,1,12\n", "row 1: policy '12' was not given"),
    "no policy": ("user,item,symbol\n1,1,1\n", "r.csv has neither a column 'policy' nor the metadata 'tacit.policy'"),
    "no symbol": ("user,item,rating,policy\n1,1,1,BIT\n", "no column 'symbol'"),
    "policy twice": ("user,item,symbol,policy,policy\n1,1,1,BIT,BIT\n", "more than one column 'policy'"),
    "no rows": ("user,item,symbol,policy\n", "no rows"),
    "nothing": ("", "not a readable table"),
    "twice": (
        "user,item,symbol,policy\na,x,1,BIT\nb,x,1,BIT\na,x,0,LAPLACE\n",
        "r.csv rows 1 and 3 both report item x for user a",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(tmp_path: Path, case: str) -> None:
    text, complaint = BAD_FILES[case]
    for name, policy in (("BIT", BIT), ("LAPLACE", LAPLACE), ("OTHER", DIRECT)):
        text = text.replace(name, policy.id)
    good = save(arrow({(99, 99): 1}), tmp_path / "good.parquet", BIT)
    bad = write(tmp_path / "r.csv", text)
    for files in (bad, [good, bad]):
        with pytest.raises((ReportError, TableError), match=complaint) as caught:
            read_reports(files, [LAPLACE, BIT])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("user", [1.0, 2.0], "column 'user' holds double; ids must be"),
        ("item", ["a", ""], "'item' has an empty id"),
        ("symbol", [0.0, 0.5], "row 2: symbol '0.5' is of double, not whole numbers"),
        ("symbol", [True, False], "row 1: symbol 'True' is of bool"),
        ("symbol", [1, None], "row 2: symbol is missing"),
        ("symbol", np.array([1, 2**64 - 1], dtype=np.uint64), "18446744073709551615"),
        ("policy", [BIT.id, None], "row 2: policy is missing"),
        ("policy", [{"id": 1}, {"id": 2}], "ids must be whole numbers or text"),
        ("policy", [BIT.id, BIT.id[:-1]], f"row 2: policy '{BIT.id[:12]}' was not given"),
    ],
)
def test_odd_parquet_columns_are_refused(tmp_path: Path, column: str, values: Any, complaint: str) -> None:
    parts = {"user": [1, 2], "item": [1, 2], "symbol": [1, 1], "policy": [BIT.id] * 2}
    table = pa.table(parts | {column: values})
    file = save(table, tmp_path / "reports.parquet")
    with pytest.raises((ReportError, TableError), match=complaint):
        read_reports(file, [BIT])
    with pytest.raises((ReportError, TableError), match=complaint):
        ReportMatrix.of_arrow(table, [BIT])


def test_metadata_that_names_no_given_policy_is_refused(tmp_path: Path) -> None:
    table = arrow({(1, 1): 1})
    file = save(table, tmp_path / "reports.parquet", DIRECT)
    with pytest.raises(ReportError, match=f"reports.parquet: policy '{DIRECT.id[:12]}' of all its rows was not given"):
        read_reports(file, [BIT])
    with pytest.raises(ReportError, match="has neither a column 'policy' nor"):
        read_reports(save(table, tmp_path / "reports.parquet"), [BIT])
    with pytest.raises(ReportError, match="reports has neither"):
        ReportMatrix.of_arrow(table, [BIT])
    with pytest.raises(TableError, match="no rows"):
        ReportMatrix.of_arrow(table[:0], [BIT])
    with pytest.raises(TableError, match="no rows"):
        read_reports(save(table[:0], tmp_path / "reports.parquet", BIT), [BIT])


def test_rows_are_counted_within_their_file(tmp_path: Path) -> None:
    one = save(arrow({(1, 1): 1, (1, 2): 1, (1, 3): 1}), tmp_path / "one.parquet", BIT)
    two = save(arrow({(2, 1): 1, (1, 2): 0}), tmp_path / "two.parquet", BIT)
    with pytest.raises(ReportError, match=r"one\.parquet row 2 and .*two\.parquet row 2 both report item 2 for user 1"):
        read_reports([one, two], [BIT])
    with pytest.raises(ReportError, match=r"one\.parquet row (\d) and .*one\.parquet row \1 both report"):
        read_reports([one, one], [BIT])
    three = write(tmp_path / "three.csv", f"user,item,symbol,policy\n5,5,1,{BIT.id}\n6,5,1,{BIT.id}\n5,5,1,{BIT.id}\n")
    with pytest.raises(ReportError, match=r"three\.csv rows 1 and 3 both report item 5 for user 5"):
        read_reports([one, three], [BIT])


def test_policies_must_share_a_scale_and_be_there() -> None:
    table = arrow({(1, 1): 1}, policy=[BIT.id])
    with pytest.raises(ReportError, match=r"on the scales .*; use reports on one scale"):
        ReportMatrix.of_arrow(table, [BIT, FINE])
    with pytest.raises(ReportError, match="no policy was given"):
        ReportMatrix.of_arrow(table, [])
    with pytest.raises(ReportError, match="no file of reports"):
        read_reports([], [BIT])


def test_too_many_symbols_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_CODES", 65)
    with pytest.raises(ReportError, match="66 symbols, the limit is 65"):
        Alphabet.of([LAPLACE, BIT])


def test_too_many_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MOST_IDS", 2)
    with pytest.raises(ReportError, match="3 different item ids, the limit is 2"):
        ReportMatrix.of_symbols([1, 1, 1], [1, 2, 3], [1, 1, 1], BIT)
    with pytest.raises(ReportError, match="3 different user ids, the limit is 2"):
        ReportMatrix.of_symbols([1, 1], [1, 2], [1, 1], BIT, catalogue_users=[2, 3])


@pytest.mark.parametrize("catalogue", [[1.5], [None], np.ones(2)])
def test_a_catalogue_of_what_is_no_id_is_refused(catalogue: Any) -> None:
    with pytest.raises(ReportError, match="user of the catalogue"):
        ReportMatrix.of_symbols([1], [1], [1], BIT, catalogue_users=catalogue)


@pytest.mark.parametrize(
    ("name", "error"), [("absent.parquet", FileError), ("absent.csv", FileError), ("r.txt", TableError)]
)
def test_unusable_names_are_refused(tmp_path: Path, name: str, error: type[InvalidInputError]) -> None:
    with pytest.raises(error):
        read_reports(tmp_path / name, [BIT])
