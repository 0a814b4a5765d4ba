from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import DataSetError, FileError, MissingExtraError, TableError
from tacit.evaluation import dataset_files
from tacit.evaluation.datasets import (
    DATA_SETS,
    Archive,
    check_counts,
    data_set_named,
    download_folder,
    find_data_set,
    load_data_set,
    summarise,
)
from tacit.evaluation.world import LIBIMSETI_SHAPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tacit.evaluation.ratings import RatingData

THREE = [(1, 10, 5.0), (1, 20, 3.5), (7, 10, 1.0)]


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TACIT_DATA", raising=False)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))


def triples(data: RatingData) -> list[tuple[int, int, float]]:
    return list(zip(data.users.decoded().tolist(), data.items.decoded().tolist(), data.ratings.tolist(), strict=True))


def assert_same(one: RatingData, other: RatingData) -> None:
    assert (one.name, one.scale, one.shape) == (other.name, other.scale, other.shape)
    for left, right in ((one.users, other.users), (one.items, other.items)):
        assert np.array_equal(left.distinct, right.distinct)
        assert np.array_equal(left.codes, right.codes)
    assert np.array_equal(one.ratings, other.ratings)
    assert np.array_equal(one.ranks, other.ranks)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def lines(separator: str, *, time: bool = True, header: str = "") -> str:
    rows = [separator.join([str(u), str(i), f"{r:g}", *(["978300760"] if time else [])]) for u, i, r in THREE]
    return "\n".join([*([header] if header else []), *rows]) + "\n"


def jester_rows(*, blank: str = "99") -> str:
    """Write two users and twelve jokes; the second user rates the jokes 1 and 12."""
    first = ["1", *["99"] * 4, "-7.82", *["99"] * 7]
    second = ["2", "9.5", *[blank] * 10, "0.05"]
    return "\n".join(",".join(row) for row in (first, second)) + "\n"


# Real data, in several forms


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("ml-100k", "ml-100k.u.data.gz"),
        ("ml-latest-small", "ml-latest-small.ratings.csv.gz"),
        ("jester-1-part-3", "jester-data-3.zip"),
    ],
)
def test_original_files_and_parquet_give_the_same_ratings(
    data_file: Callable[[str], Path], tmp_path: Path, name: str, raw: str
) -> None:
    original = data_file(f"raw/{raw}")
    whole = "jester-1" if name.startswith("jester") else name
    expected = load_data_set(name, data_file(f"{whole}.parquet").parent)
    write(tmp_path / "only" / "raw" / raw, original.read_bytes())
    found = load_data_set(name, tmp_path / "only")
    assert_same(found, expected)
    assert found.sha256 != expected.sha256
    if not DATA_SETS[name].rounding:
        assert found.sha256 == hashlib.sha256(original.read_bytes()).hexdigest()
    check_counts(DATA_SETS[name], found)


def test_the_whole_of_jester_has_its_parts(data_file: Callable[[str], Path]) -> None:
    folder = data_file("jester-1.parquet").parent
    whole = load_data_set("jester-1", folder)
    parts = [load_data_set(f"jester-1-part-{part}", folder) for part in (1, 2, 3)]
    for data in (whole, *parts):
        check_counts(DATA_SETS[data.name], data)
    assert np.array_equal(np.concatenate([part.users.decoded() for part in parts]), whole.users.decoded())
    assert np.array_equal(np.concatenate([part.ratings for part in parts]), whole.ratings)
    assert np.array_equal(whole.ratings, np.round(whole.ratings, 2))
    assert len({data.sha256 for data in (whole, *parts)}) == 4  # though all were read from one file


@pytest.mark.parametrize(
    ("name", "mean", "sd"), [("ml-1m", 3.582, 1.117), ("libimseti-top2000", 5.952, 3.064), ("ml-100k", 3.530, 1.126)]
)
def test_real_data_has_its_published_figures(
    data_file: Callable[[str], Path], name: str, mean: float, sd: float
) -> None:
    data = load_data_set(name, data_file(f"{name}.parquet").parent)
    check_counts(DATA_SETS[name], data)
    summary = summarise(data)
    assert (summary.mean, summary.sd) == (pytest.approx(mean, abs=5e-4), pytest.approx(sd, abs=5e-4))
    assert sum(summary.histogram) == summary.ratings == len(data)
    assert summary.density == pytest.approx(summary.ratings / (summary.users * summary.items))
    assert not summary.synthetic


# Formats, from files made by hand


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("ml-10m", "ml-10m/ratings.dat", lines("::")),
        ("ml-10m", "ml-10M100K/ratings.dat", lines("::")),
        ("ml-10m", "ml-10m.ratings.dat.gz", gzip.compress(lines("::").encode(), mtime=0)),
        ("ml-10m", "ml-10m.csv", "user,item,rating\n" + lines(",", time=False)),
        ("ml-20m", "ml-20m/ratings.csv", lines(",", header="userId,movieId,rating,timestamp")),
        ("ml-20m", "ml-20m.csv", lines(",", header="userId,movieId,rating,timestamp")),
        ("ml-20m", "ml-20m.csv", lines(",", header='"userId","movieId","rating","timestamp"').replace("\n", "\r\n")),
        ("jester-2", "jester-2/jester_ratings.dat", lines("\t\t", time=False)),
        ("jester-2", "raw/jester_dataset_2/jester_ratings.dat", lines("\t\t", time=False)),
    ],
)
def test_a_known_format_is_recognised(tmp_path: Path, name: str, file: str, content: str | bytes) -> None:
    write(tmp_path / file, content)
    data = load_data_set(name, tmp_path)
    assert triples(data) == THREE
    assert data.users.distinct.dtype.kind == "i"
    assert data.scale == DATA_SETS[name].scale


def test_whole_ratings_are_read_too(tmp_path: Path) -> None:
    write(tmp_path / "ml-1m" / "ratings.dat", "2::1193::5::978300760\n1::661::3::978302109\n")
    write(tmp_path / "ml-100k" / "u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    write(tmp_path / "libimseti" / "ratings.dat", "1,133,8\n1,720,6\n2,133,10\n")
    assert triples(load_data_set("ml-1m", tmp_path)) == [(1, 661, 3.0), (2, 1193, 5.0)]
    assert triples(load_data_set("ml-100k", tmp_path)) == [(186, 302, 3.0), (196, 242, 3.0)]
    assert triples(load_data_set("libimseti", tmp_path)) == [(1, 133, 8.0), (1, 720, 6.0), (2, 133, 10.0)]


def test_an_archive_is_read_without_being_unpacked(tmp_path: Path) -> None:
    zipped(tmp_path / "ml-1m.zip", {"ml-1m/": "", "ml-1m/README": "x", "ml-1m/ratings.dat": "1::2::3::4\n"})
    assert triples(load_data_set("ml-1m", tmp_path)) == [(1, 2, 3.0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ml-1m.zip"]


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_matrix_of_jester_has_a_row_for_each_user(tmp_path: Path, part: int) -> None:
    write(tmp_path / f"jester-1-part-{part}" / f"jester-data-{part}.csv", jester_rows())
    data = load_data_set(f"jester-1-part-{part}", tmp_path)
    first = {1: 1, 2: 24_984, 3: 48_484}[part]
    assert triples(data) == [(first, 5, -7.82), (first + 1, 1, 9.5), (first + 1, 12, 0.05)]
    assert data.scale.ratings[data.ranks].tolist() == [-7.75, 9.5, 0.0]


def test_jester_is_put_together_from_parts(tmp_path: Path) -> None:
    for part in (1, 2):
        zipped(tmp_path / f"jester_dataset_1_{part}.zip", {f"jester-data-{part}.csv": jester_rows()})
    with pytest.raises(DataSetError, match="jester-1 is not in"):
        load_data_set("jester-1", tmp_path)
    write(tmp_path / "jester-1-part-3.csv", "user,item,rating\n48484,7,1.5\n")
    data = load_data_set("jester-1", tmp_path)
    assert data.users.distinct.tolist() == [1, 2, 24_984, 24_985, 48_484]
    assert len(find_data_set(DATA_SETS["jester-1"], tmp_path)) == 3


def test_a_part_is_chosen_by_its_column(tmp_path: Path) -> None:
    write(tmp_path / "jester-1.csv", "user,item,rating,part\n1,1,1.5,1\n2,3,-2,2\n3,1,0,3\n")
    assert triples(load_data_set("jester-1-part-2", tmp_path)) == [(2, 3, -2.0)]
    write(tmp_path / "jester-1.csv", "user,item,rating,part\n1,1,1.5,1\n")
    with pytest.raises(DataSetError, match="no rows of part 2"):
        load_data_set("jester-1-part-2", tmp_path)


# Where it looks


def test_the_argument_comes_before_the_variable_and_that_before_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rate(folder: Path, rating: int) -> None:
        write(folder / "ml-1m.csv", f"user,item,rating\n1,1,{rating}\n")

    def rating(folder: Path | None = None) -> float:
        return float(load_data_set("ml-1m", folder).ratings[0])

    rate(download_folder(), 3)
    assert rating() == 3
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "variable"))
    assert rating() == 3
    rate(tmp_path / "variable", 4)
    assert rating() == 4
    rate(tmp_path / "argument", 5)
    assert rating(tmp_path / "argument") == 5


def test_downloads_go_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert download_folder() == tmp_path / "cache" / "data"
    monkeypatch.delenv("TACIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert download_folder() == tmp_path / "tacit" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert download_folder() == tmp_path / "home" / ".cache" / "tacit" / "data"


def test_what_is_absent_is_said_with_where_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "here"))
    with pytest.raises(DataSetError) as raised:
        load_data_set("ml-20m")
    for part in (str(tmp_path / "here"), str(download_folder()), "tacit data get ml-20m", "TACIT_DATA"):
        assert part in str(raised.value)
    with pytest.raises(DataSetError, match=r"download libimseti-complete\.zip .*TACIT_DATA"):
        load_data_set("libimseti")
    with pytest.raises(DataSetError, match=r"not published: bring your own libimseti-top2000\.parquet"):
        load_data_set("libimseti-top2000")
    with pytest.raises(DataSetError, match=r"no data set 'ml-2k'; the names are ml-100k, .*, world"):
        load_data_set("ml-2k")


# Synthetic worlds


def test_a_world_is_always_called_synthetic() -> None:
    data = load_data_set("world")
    assert data.synthetic
    assert summarise(data).synthetic
    assert (len(data), data.shape[0]) == (100_000, 1_000)
    assert data.sha256 == load_data_set("world").sha256
    check_counts(DATA_SETS["world"], data)
    big = data_set_named("libimseti-world")
    assert big.synthetic
    assert "ynthetic" in big.title
    assert (big.world, str(big.scale)) == (LIBIMSETI_SHAPE, "1:10:1")


# The catalogue


def test_the_catalogue_is_sound() -> None:
    for name, data_set in DATA_SETS.items():
        assert data_set.name == name
        assert data_set.title
        assert data_set.licence
        assert data_set.citation
        sources = [data_set.archive, data_set.by_hand, data_set.parts, data_set.world]
        assert sum(bool(source) for source in sources) == 1
        assert data_set.synthetic == ("ynthetic" in data_set.title)
        if data_set.archive:
            assert data_set.archive.url.startswith("https://")
            assert re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", data_set.archive.checksum or "md5:" + "0" * 32)
    with pytest.raises(DataSetError, match="https only"):
        Archive("http://files.grouplens.org/datasets/movielens/ml-100k.zip")


def test_the_checksum_of_a_real_archive_is_that_of_the_catalogue(data_file: Callable[[str], Path]) -> None:
    content = data_file("raw/jester-data-3.zip").read_bytes()
    archive = DATA_SETS["jester-1-part-3"].archive
    assert archive is not None
    assert (archive.size, archive.checksum) == (len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")


def test_other_counts_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "ml-1m.csv", "user,item,rating\n1,1,5\n")
    with pytest.raises(DataSetError, match="1 ratings here and 1,000,209 at its publisher"):
        check_counts(DATA_SETS["ml-1m"], load_data_set("ml-1m", tmp_path))


# Damaged and hostile files


def refused(tmp_path: Path, name: str = "ml-1m") -> str:
    with pytest.raises((DataSetError, TableError, FileError)) as raised:
        load_data_set(name, tmp_path)
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["../ratings.dat", "/etc/ratings.dat", "ml-1m/../../ratings.dat", "..\\ratings.dat"])
def test_an_archive_cannot_write_anywhere(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    zipped(folder / "ml-1m.zip", {name: "1::2::3::4\n"})
    if "\\" in name:  # no separator here, so it is another name
        assert "holds no files ratings.dat" in refused(folder)
    else:
        assert triples(load_data_set("ml-1m", folder)) == [(1, 2, 3.0)]
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == [folder / "ml-1m.zip"]


def test_an_archive_without_the_file_or_with_several_is_refused(tmp_path: Path) -> None:
    zipped(tmp_path / "ml-1m.zip", {"ml-1m/movies.dat": "1::a::b\n"})
    assert "holds no files ratings.dat" in refused(tmp_path)
    zipped(tmp_path / "ml-1m.zip", {"a/ratings.dat": "1::2::3::4\n", "b/ratings.dat": "1::2::3::4\n"})
    assert "holds 2 files ratings.dat, not one" in refused(tmp_path)


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"1::{item}::3::4\n" for item in range(20_000))
    zipped(tmp_path / "ml-1m.zip", {"ml-1m/ratings.dat": rows})
    write(tmp_path / "other" / "ml-1m.ratings.dat.gz", gzip.compress(rows.encode()))
    monkeypatch.setattr(dataset_files, "MOST_BYTES", 100_000)
    assert "unpacks to" in refused(tmp_path)
    assert "unpacks to more than 100,000 bytes, the limit" in refused(tmp_path / "other")


def test_an_archive_that_lies_about_its_size_is_damaged(tmp_path: Path) -> None:
    path = zipped(tmp_path / "ml-1m.zip", {"ml-1m/ratings.dat": "1::2::3::4\n" * 1000})
    content = path.read_bytes()
    path.write_bytes(content.replace((11_000).to_bytes(4, "little"), (110).to_bytes(4, "little")))
    assert "damaged" in refused(tmp_path)


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "ml-1m.zip", {"ml-1m/ratings.dat": "1::2::3::4\n"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "is encrypted" in refused(tmp_path)


def test_a_damaged_archive_is_one_line(tmp_path: Path, data_file: Callable[[str], Path]) -> None:
    path = write(tmp_path / "ml-1m.zip", "no archive at all")
    assert f"{path} is damaged" in refused(tmp_path)
    good = data_file("raw/jester-data-3.zip").read_bytes()
    path = write(tmp_path / "jester-1-part-3.zip", good[:1_000_000])
    assert "is damaged" in refused(tmp_path, "jester-1-part-3")
    path.write_bytes(good[:1_000_000] + bytes(1000) + good[1_001_000:])
    assert "is damaged" in refused(tmp_path, "jester-1-part-3")


@pytest.mark.parametrize("end", [3, 10, -1, -6])
def test_a_damaged_gzip_is_one_line(tmp_path: Path, end: int) -> None:
    packed = gzip.compress(lines("::").encode())
    write(tmp_path / "ml-1m.ratings.dat.gz", packed[:end])
    assert "damaged" in refused(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "begins ''"),
        ("hello\nworld\n", "begins 'hello', which is no known format"),
        ("1::2::3::4\n1::x::3::4\n", "invalid value 'x'"),
        ("1::2::3::4\n1::2\n", "Expected 7 columns"),
        ("1::2::3::4\n1::::3::4\n", "row 2: item is missing"),
        ("1::2::3::4\n1::2::4::4\n", "rows 1 and 2 both rate item 2 for user 1"),
        ("1::2::9::4\n", "outside the scale 1 to 5"),
        ("1::2::3.5::4\n", "between two steps"),
        ("9999999999::2::3::4\n", "invalid value '9999999999'"),
        (b"\xff\xfe\x00\x01\n", "no known format"),
    ],
)
def test_unusable_content_is_one_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    write(tmp_path / "ml-1m" / "ratings.dat", content)
    assert said in refused(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (jester_rows(blank=""), "is not a readable table"),
        (jester_rows().replace("9.5", "lol"), "is not a readable table"),
        (jester_rows().replace("9.5", "11"), "outside the scale -10 to 10"),
        (",".join(["0", *["99"] * 12]) + "\n", "has no ratings"),
    ],
)
def test_an_unusable_matrix_is_one_line(tmp_path: Path, content: str, said: str) -> None:
    write(tmp_path / "jester-3" / "FINAL jester 2006-15.csv", content)
    assert said in refused(tmp_path, "jester-3")


# Spreadsheets


def workbook(rows: list[list[float | str | None]]) -> bytes:
    """Write the least that is an .xlsx file."""

    def cell(value: float | str | None) -> str:
        if value is None:
            return "<c/>"
        return f'<c t="str"><v>{value}</v></c>' if isinstance(value, str) else f"<c><v>{value}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    sheet = "".join(f"<row>{''.join(cell(value) for value in row)}</row>" for row in rows)
    relation = (
        '<Relationships xmlns="{}/relationships"><Relationship Id="r1" Type="{}/{}" Target="{}"/></Relationships>'
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        archive.writestr("_rels/.rels", relation.format(package, office, "officeDocument", "xl/workbook.xml"))
        sheets = '<sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets>'
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{office}">{sheets}</workbook>')
        archive.writestr(
            "xl/_rels/workbook.xml.rels", relation.format(package, office, "worksheet", "worksheets/sheet1.xml")
        )
        archive.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
        )
    return content.getvalue()


JESTER_4 = DATA_SETS["jester-4"].originals[0]


def test_a_later_spreadsheet_with_empty_cells_is_read(tmp_path: Path) -> None:
    zipped(tmp_path / "JesterDataset4.zip", {JESTER_4: workbook([[2, 1.25, None, -3], [1, 99, 4.5, None]])})
    assert triples(load_data_set("jester-4", tmp_path)) == [(1, 1, 1.25), (1, 3, -3.0), (2, 2, 4.5)]


def test_an_unusable_spreadsheet_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(content: bytes) -> None:
        write(tmp_path / "jester-4" / JESTER_4, content)

    put(workbook([[1, 2.0], [1, "funny"]]))
    assert "row 2 holds something else than numbers" in refused(tmp_path, "jester-4")
    put(workbook([]))
    assert "has no ratings" in refused(tmp_path, "jester-4")
    put(b"\xd0\xcf\x11\xe0" + bytes(5000))
    assert "is not a readable spreadsheet" in refused(tmp_path, "jester-4")
    put(workbook([[1, 2.0]])[:-30])
    assert "damaged" in refused(tmp_path, "jester-4")
    put(workbook([[1, 2.0]] * 1000))
    monkeypatch.setattr(dataset_files, "MOST_SHEET_BYTES", 20_000)
    assert "unpacks to more than 20,000 bytes, the limit" in refused(tmp_path, "jester-4")


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "jester-4" / JESTER_4, workbook([[1, 2.0]]))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"install tacit\[datasets\]"):
        load_data_set("jester-4", tmp_path)


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "ml-1m.parquet", "x")
    assert "is not a readable table" in refused(tmp_path)
