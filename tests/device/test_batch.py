from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.device import perturb_file, read_true_ratings
from tacit.errors import FileError, TableError
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_reports_come_out_as_the_contract_says(tmp_path: Path, policy: Policy) -> None:
    source = write(tmp_path / "ratings.csv", "timestamp,rating,item,user\n1,5,b,20\n2,1,a,3\n3,3,b,3\n")
    done = perturb_file(source, policy, tmp_path / "reports.parquet")
    table = pq.read_table(tmp_path / "reports.parquet")
    assert table.column_names == ["user", "item", "symbol"]
    assert table.column("user").to_pylist() == [3, 3, 20]
    assert table.column("item").to_pylist() == ["a", "b", "b"]
    assert table.schema.metadata[b"tacit.policy"].decode() == policy.id
    assert Policy.from_json(table.schema.metadata[b"tacit.policy.document"]) == policy
    assert max(table.column("symbol").to_pylist()) < 64
    assert (done.reports, done.largest_user_total) == (3, Decimal(2))
    perturb_file(source, policy, tmp_path / "reports.csv")
    header, first = (tmp_path / "reports.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert header.replace('"', "") == "user,item,symbol,policy"
    assert policy.id in first


def test_the_order_of_a_file_sorted_by_rating_does_not_come_out(tmp_path: Path, policy: Policy) -> None:
    rng = np.random.default_rng(0)
    users, ratings = rng.permutation(1000), np.sort(rng.integers(1, 6, 1000))
    pq.write_table(pa.table({"user": users, "item": users, "rating": ratings}), tmp_path / "ratings.parquet")
    perturb_file(tmp_path / "ratings.parquet", policy, tmp_path / "reports.parquet")
    assert pq.read_table(tmp_path / "reports.parquet").column("user").to_pylist() == list(range(1000))


def test_every_run_draws_afresh(tmp_path: Path, policy: Policy) -> None:
    rows = "\n".join(f"{user},1,3" for user in range(200))
    source = write(tmp_path / "ratings.csv", f"user,item,rating\n{rows}\n")
    runs = []
    for run in range(2):
        perturb_file(source, policy, tmp_path / f"{run}.parquet")
        runs.append(pq.read_table(tmp_path / f"{run}.parquet").column("symbol").to_pylist())
    assert runs[0] != runs[1]


def test_rounding_is_asked_for(tmp_path: Path) -> None:
    policy = Policy.make("duchi", RatingScale.parse("-10:10:0.25"), "1")
    source = write(tmp_path / "jester.csv", "user,item,rating\n1,1,-9.83\n1,2,3.3\n")
    with pytest.raises(TableError, match="between two steps"):
        perturb_file(source, policy, tmp_path / "reports.parquet")
    perturb_file(source, policy, tmp_path / "reports.parquet", rounding=True)
    assert read_true_ratings(source, policy.scale, rounding=True).ranks.tolist() == [1, 53]


BAD_FILES = {
    "nan": ("user,item,rating\n1,1,NaN\n", "rating nan"),
    "infinity": ("user,item,rating\n1,1,inf\n", "rating inf"),
    "off the scale": ("user,item,rating\n1,1,3\n1,2,5.5\n", r"5\.5 \(number 2\) is outside"),
    "between steps": ("user,item,rating\n1,1,3.3\n", "between two steps"),
    "text": ("user,item,rating\n1,1,3\n1,2,good\n", "row 2: rating 'good' is not a number"),
    "missing rating": ("user,item,rating\n1,1,\n1,2,3\n", "row 1: rating is missing"),
    "missing user": ("user,item,rating\n,1,3\n7,2,3\n", "row 1: user is missing"),
    "empty": ("", "not a readable table"),
    "header only": ("user,item,rating\n", "no rows"),
    "missing column": ("user,item,stars\n1,1,3\n", "no column 'rating'"),
    "duplicate": ("user,item,rating\n1,7,3\n2,7,3\n1,7,4\n", "rows 1 and 3 both rate item 7 for user 1"),
    "missing item among text": ("user,item,rating\na,,3\nb,x,3\n", "row 1: item is missing"),
    "true is no rating": ("user,item,rating\n1,1,true\n", "'true' is not a number"),
    "hexadecimal": ("user,item,rating\n1,1,0x3\n", "'0x3' is not a number"),
    "underscore": ("user,item,rating\n1,1,1_0\n", "'1_0' is not a number"),
    "another script": ("user,item,rating\n1,1,\uff14\n", "is not a number"),
    "huge": ("user,item,rating\n1,1,1.7e308\n", "outside the scale"),
    "column twice": ("user,item,rating,rating\n1,1,3,4\n", "more than one column 'rating'"),
    "long item": (f"user,item,rating\n1,{'x' * 300},3\n", "1 to 200 bytes"),
    "ragged": ("user,item,rating\n1,1,3,4\n1\n", "not a readable table"),
    "binary": ("\x00\x01\x02", "no column|not a readable table"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_and_nothing_is_written(tmp_path: Path, policy: Policy, case: str) -> None:
    text, complaint = BAD_FILES[case]
    source = write(tmp_path / "ratings.csv", text)
    with pytest.raises(TableError, match=complaint):
        perturb_file(source, policy, tmp_path / "reports.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["ratings.csv"]


@pytest.mark.parametrize(
    ("source", "target", "error"), [("absent.csv", "r.parquet", FileError), ("r.txt", "r.parquet", TableError)]
)
def test_unusable_names_are_refused(
    tmp_path: Path, policy: Policy, source: str, target: str, error: type[Exception]
) -> None:
    write(tmp_path / "r.txt", "user,item,rating\n1,1,3\n")
    with pytest.raises(error):
        perturb_file(tmp_path / source, policy, tmp_path / target)


def test_a_broken_parquet_file_is_refused(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "ratings.parquet").write_bytes(b"PAR1 is how it begins")
    with pytest.raises(TableError, match="not a readable table"):
        perturb_file(tmp_path / "ratings.parquet", policy, tmp_path / "reports.parquet")


def test_a_header_that_is_not_utf8_is_refused(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "latin.csv").write_bytes("user,item,rating,qualit\u00e9\n1,1,3,4\n".encode("latin-1"))
    with pytest.raises(TableError, match="not a readable table"):
        perturb_file(tmp_path / "latin.csv", policy, tmp_path / "reports.parquet")


def test_ids_are_kept_as_written(tmp_path: Path) -> None:
    odd = ["01", "1", "1e5", "2020-01-01", "true", "12:30", "nan", "123456789012345678901234567890"]
    rows = "".join(f"{user},7,3\n" for user in odd)
    ratings = read_true_ratings(write(tmp_path / "odd.csv", f"\ufeffuser,item,rating\r\n{rows}"), STARS)
    assert ratings.users.decoded().tolist() == sorted(odd)
    assert ratings.items.decoded().tolist() == [7] * len(odd)


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("user", pa.array([1.5, 2.0]), "ids must be whole numbers or text"),
        ("user", pa.array([[1], [2]]), "ids must be whole numbers or text"),
        ("user", pa.array(["", "a"]), "empty id"),
        ("user", pa.array([None, "a"]), "row 1: user is missing"),
        ("rating", pa.array([True, False]), "holds bool"),
        ("rating", pa.array([b"3", b"4"]), "holds binary"),
        ("rating", pa.array([[3], [4]]), "holds list"),
        (
            "user",
            pa.Array.from_buffers(pa.string(), 2, [*pa.array(["a", "b"]).buffers()[:2], pa.py_buffer(b"\xff\xfe")]),
            "not a readable",
        ),
    ],
)
def test_odd_parquet_columns_are_refused(
    tmp_path: Path, policy: Policy, column: str, values: pa.Array, complaint: str
) -> None:
    columns = {"user": pa.array([1, 2]), "item": pa.array([1, 2]), "rating": pa.array([3, 4])} | {column: values}
    pq.write_table(pa.table(columns), tmp_path / "ratings.parquet")
    with pytest.raises(TableError, match=complaint):
        perturb_file(tmp_path / "ratings.parquet", policy, tmp_path / "reports.parquet")


def test_dictionary_columns_and_many_chunks_are_read(tmp_path: Path) -> None:
    users = pa.chunked_array([pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    table = pa.table({"user": users, "item": [1, 2, 3, 4], "rating": pa.array([1, 2, 3, 4], pa.int8())})
    pq.write_table(table, tmp_path / "ratings.parquet", row_group_size=2)
    ratings = read_true_ratings(tmp_path / "ratings.parquet", STARS)
    assert ratings.users.decoded().tolist() == ["a", "a", "b", "c"]
    assert ratings.items.decoded().tolist() == [2, 4, 1, 3]
    assert ratings.ranks.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("name", "scale", "rounding"),
    [
        ("ml-100k", "1:5:1", False),
        ("ml-latest-small", "0.5:5:0.5", False),
        ("libimseti-top2000", "1:10:1", False),
        ("jester-1", "-10:10:0.25", True),
    ],
)
def test_real_data_sets_are_read(data_file: Callable[[str], Path], name: str, scale: str, rounding: bool) -> None:
    ratings = read_true_ratings(data_file(f"{name}.parquet"), RatingScale.parse(scale), rounding=rounding)
    assert len(ratings.ranks) >= 10**5
    assert ratings.ratings_of_busiest_user >= 100
