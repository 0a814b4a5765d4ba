"""The data sets that tacit knows by name: what they are, whose, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.errors import DataSetError
from tacit.evaluation.world import EMBEDDED, LIBIMSETI_SHAPE
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from tacit.evaluation.world import WorldShape

# Nothing that goes to this machine itself can be read or changed on the way.
_SAFE_BEGINNINGS = ("https://", "http://127.0.0.1:", "http://localhost:")


@dataclass(frozen=True, slots=True)
class Archive:
    """A file that a publisher offers."""

    url: str
    size: int | None = None
    """In bytes."""
    checksum: str | None = None
    """`md5:` or `sha256:` and hexadecimal digits."""

    def __post_init__(self) -> None:
        """Refuse an address where what comes may have been changed on the way."""
        if not self.url.startswith(_SAFE_BEGINNINGS):
            raise DataSetError(f"{self.url} is not an https address; data sets are fetched over https only")


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a data set holds, as far as it is known."""

    ratings: int | None = None
    users: int | None = None
    items: int | None = None
    """Those with a rating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set known by name."""

    name: str
    title: str
    scale: RatingScale
    rounding: bool = False
    """Whether ratings lie between the steps of the scale."""
    decimals: int | None = None
    """How many the publisher gives; files of single precision blur them."""
    counts: Counts = Counts()
    licence: str
    citation: str
    page: str = ""
    archive: Archive | None = None
    by_hand: str = ""
    """How to come by it when there is nothing to fetch."""
    also: tuple[str, ...] = ()
    """Other names of its archive or folder."""
    originals: tuple[str, ...] = ()
    """The names of the publisher's file of ratings."""
    parts: tuple[str, ...] = ()
    """The data sets it consists of."""
    part: int | None = None
    """Which part of `part_of` it is, by the column `part`."""
    part_of: str = ""
    first_user: int = 1
    """The number of the first row, where a file has a row for each user and no ids."""
    world: WorldShape | None = None

    @property
    def synthetic(self) -> bool:
        """Whether its people are invented."""
        return self.world is not None


def data_set_named(name: str) -> DataSet:
    """Return a data set of the catalogue, or refuse a name that is not in it."""
    if name not in DATA_SETS:
        raise DataSetError(f"there is no data set {name!r}; the names are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


_STARS = RatingScale.parse("1:5:1")
_HALVES = RatingScale.parse("0.5:5:0.5")
_TEN = RatingScale.parse("1:10:1")

_RESEARCH_ONLY = "research only, no redistribution"
_SAME_TERMS = "research; redistribution under the same terms"

# GroupLens publishes the md5 of its archives. The sha256 of ml-latest-small, which may be replaced one day, pins it.
_MOVIELENS = (
    ("100k", _STARS, (100_000, 943, 1_682), "u.data", 4_924_029, "0e33842e24a9c977be4e0107933c0723"),
    ("1m", _STARS, (1_000_209, 6_040, 3_706), "ratings.dat", 5_917_549, "c4d9eecfca2ab87c1945afe126590906"),
    ("10m", _HALVES, (10_000_054, 69_878, 10_677), "ratings.dat", 65_566_137, "ce571fd55effeba0271552578f2648bd"),
    ("20m", _HALVES, (20_000_263, 138_493, 26_744), "ratings.csv", 198_702_078, "cd245b17a1ae2cc31bb14903e1204af3"),
    ("25m", _HALVES, (25_000_095, 162_541, 59_047), "ratings.csv", 261_978_986, "6b51fb2759a8657d3bfcbfc42b592ada"),
    ("32m", _HALVES, (32_000_204, 200_948, 84_432), "ratings.csv", 238_950_008, "d472be332d4daa821edc399621853b57"),
)
_NOT_TO_BE_PASSED_ON = {"100k", "1m", "10m"}
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"

_LATEST_SMALL = DataSet(
    name="ml-latest-small",
    title="MovieLens Latest Small, edition of September 2018",
    scale=_HALVES,
    counts=Counts(100_836, 610, 9_724),
    licence=_SAME_TERMS,
    citation="F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015",
    page="https://grouplens.org/datasets/movielens/",
    archive=Archive(
        f"{_GROUPLENS}/ml-latest-small.zip",
        978_202,
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    ),
    originals=("ratings.csv",),
)


def _movielens() -> list[DataSet]:
    return [
        replace(
            _LATEST_SMALL,
            name=f"ml-{size}",
            title=f"MovieLens {size.upper()}",
            scale=scale,
            counts=Counts(*counts),
            licence=_RESEARCH_ONLY if size in _NOT_TO_BE_PASSED_ON else _SAME_TERMS,
            archive=Archive(f"{_GROUPLENS}/ml-{size}.zip", length, f"md5:{md5}"),
            also=("ml-10M100K",) if size == "10m" else (),
            originals=(original,),
        )
        for size, scale, counts, original, length, md5 in _MOVIELENS
    ]


_EIGENTASTE = "https://eigentaste.berkeley.edu/dataset/"

_JESTER = DataSet(
    name="jester-1",
    title="Jester dataset 1",
    scale=RatingScale.parse("-10:10:0.25"),
    rounding=True,
    decimals=2,
    counts=Counts(4_136_360, 73_421, 100),
    licence="research use when acknowledged",
    citation="K. Goldberg, T. Roeder, D. Gupta and C. Perkins, Eigentaste: A Constant Time Collaborative Filtering"
    " Algorithm, Information Retrieval 4(2), 2001",
    page=_EIGENTASTE,
)

# The publisher gives no checksum of these; the ones here are of copies that several people keep.
_JESTER_PARTS = (
    (1, (1_810_455, 24_983, 100), 4_171_628, "cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615"),
    (2, (1_708_993, 23_500, 100), 3_924_205, "4d312fd824d8c8cb2c9c952a7b1fb7c00d1f5fd3ece370f7285aa701d371748b"),
    (3, (616_912, 24_938, 100), 2_151_299, "7f548d3762d3506cf7cd37d8cb9e3adb67984a7da7aa2d2096d5e0b1b884758d"),
)
_FIRST_USERS = {1: 1, 2: 24_984, 3: 48_484}


def _jester_1() -> list[DataSet]:
    parts = [
        replace(
            _JESTER,
            name=f"jester-1-part-{part}",
            title=f"Jester dataset 1, part {part} of 3",
            counts=Counts(*counts),
            archive=Archive(f"{_EIGENTASTE}archive/jester_dataset_1_{part}.zip", length, f"sha256:{sha256}"),
            also=(f"jester_dataset_1_{part}", f"jester-data-{part}"),
            originals=(f"jester-data-{part}.xls", f"jester-data-{part}.csv"),
            part=part,
            part_of="jester-1",
            first_user=_FIRST_USERS[part],
        )
        for part, counts, length, sha256 in _JESTER_PARTS
    ]
    return [replace(_JESTER, parts=tuple(part.name for part in parts)), *parts]


_LATER_JESTER = (
    (2, "2006 to 2009", Counts(1_761_439, 59_132, 140), "archive/jester_dataset_2", "jester_ratings.dat"),
    (3, "2006 to 2015", Counts(users=54_905), "JesterDataset3", "FINAL jester 2006-15.xls"),
    (
        4,
        "2015 to 2019",
        Counts(),
        "JesterDataset4",
        "[final] April 2015 to Nov 30 2019 - Transformed Jester Data - .xlsx",
    ),
)


def _later_jester() -> list[DataSet]:
    return [
        replace(
            _JESTER,
            name=f"jester-{number}",
            title=f"Jester dataset {number} ({years})",
            counts=counts,
            archive=Archive(f"{_EIGENTASTE}{archive}.zip"),
            also=(archive.removeprefix("archive/"),),
            originals=(original, original.rsplit(".", 1)[0] + ".csv"),
        )
        for number, years, counts, archive, original in _LATER_JESTER
    ]


_LIBIMSETI = DataSet(
    name="libimseti",
    title="Libimseti",
    scale=_TEN,
    counts=Counts(17_359_346, 135_359, 168_791),
    licence=_RESEARCH_ONLY,
    citation="L. Brozovsky and V. Petricek, Recommender System for Online Dating Service, Znalosti 2007",
    page="http://www.occamslab.com/petricek/data/",
    by_hand="its publisher offers no https address: download libimseti-complete.zip from the page yourself",
    also=("libimseti-complete",),
    originals=("ratings.dat",),
)

_TOP_2000 = replace(
    _LIBIMSETI,
    name="libimseti-top2000",
    title="Libimseti, ratings among the 2,000 most active raters",
    counts=Counts(110_023, 2_000, 1_531),
    page="",
    by_hand="it is not published: bring your own libimseti-top2000.parquet",
    also=(),
    originals=(),
)

_WORLD = DataSet(
    name="world",
    title="Synthetic world, embedded in tacit",
    scale=_STARS,
    counts=Counts(EMBEDDED.ratings, EMBEDDED.people),
    licence="none needed: invented",
    citation="tacit",
    world=EMBEDDED,
)

_LIBIMSETI_WORLD = replace(
    _WORLD,
    name="libimseti-world",
    title="Synthetic world of the shape of Libimseti",
    scale=_TEN,
    counts=Counts(LIBIMSETI_SHAPE.ratings, LIBIMSETI_SHAPE.people),
    world=LIBIMSETI_SHAPE,
)

_ALL = [*_movielens(), _LATEST_SMALL, *_jester_1(), *_later_jester(), _LIBIMSETI, _TOP_2000, _LIBIMSETI_WORLD, _WORLD]

DATA_SETS: dict[str, DataSet] = {data_set.name: data_set for data_set in _ALL}
