"""Data sets by name: found on disk, read whatever their form, and summed up."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import DataSetError
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.catalogue import DATA_SETS, Archive, Counts, DataSet, data_set_named
from tacit.evaluation.dataset_files import RawRatings, read_original
from tacit.evaluation.ratings import RatingData, rating_data, sha256_of
from tacit.evaluation.world import make_world
from tacit.tables import Ids, column_of, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.evaluation.world import WorldShape
    from tacit.privacy.scale import RatingScale

__all__ = [
    "DATA_SETS",
    "Archive",
    "Counts",
    "DataSet",
    "Summary",
    "check_counts",
    "data_set_named",
    "download_folder",
    "find_data_set",
    "load_data_set",
    "remedy",
    "summarise",
]

_TABLE = ("user", "item", "rating")


def load_data_set(name: str, folder: str | Path | None = None) -> RatingData:
    """Load a data set by name, from `folder`, or the folder that TACIT_DATA names, or what was downloaded before."""
    data_set = data_set_named(name)
    if data_set.world is not None:
        return _invented(data_set, data_set.world)
    files = find_data_set(data_set, folder)
    if not files:
        places = " and ".join(str(place) for place in _folders(folder))
        raise DataSetError(f"{name} is not in {places}; {remedy(data_set)}")
    return _read(data_set, files)


def find_data_set(data_set: DataSet, folder: str | Path | None = None) -> tuple[Path, ...]:
    """Return the file, or the files of its parts, that a data set would be read from; none if it is not there."""
    for place in _folders(folder):
        found = next((path for path in _candidates(data_set, place) if path.is_file()), None)
        if found is not None:
            return (found,)
    parts = [find_data_set(DATA_SETS[part], folder) for part in data_set.parts]
    return tuple(path for part in parts for path in part) if all(parts) else ()


def download_folder() -> Path:
    """Return the folder for downloads."""
    return cache_folder() / "data"


def check_counts(data_set: DataSet, data: RatingData) -> None:
    """Refuse data that has not as many ratings, users and items as its publisher says."""
    known, (users, items) = data_set.counts, data.shape
    pairs = ((known.ratings, len(data), "ratings"), (known.users, users, "users"), (known.items, items, "items"))
    for expected, found, what in pairs:
        if expected is not None and expected != found:
            raise DataSetError(
                f"{data_set.name} has {found:,} {what} here and {expected:,} at its publisher: another edition, or"
                " damaged; remove the file and fetch it again"
            )


@dataclass(frozen=True)
class Summary:
    """A data set in figures."""

    name: str
    scale: RatingScale
    ratings: int
    users: int
    items: int
    density: float
    mean: float
    sd: float
    histogram: tuple[int, ...]
    """How many ratings there are of every rank, rounded where the data set is."""
    sha256: str
    synthetic: bool


def summarise(data: RatingData) -> Summary:
    """Sum up a data set."""
    return Summary(
        name=data.name,
        scale=data.scale,
        ratings=len(data),
        users=data.shape[0],
        items=data.shape[1],
        density=data.density,
        mean=float(data.ratings.mean()),
        sd=float(data.ratings.std()),
        histogram=tuple(np.bincount(data.ranks, minlength=data.scale.size).tolist()),
        sha256=data.sha256,
        synthetic=data.synthetic,
    )


def _folders(folder: str | Path | None) -> list[Path]:
    chosen = folder or os.environ.get("TACIT_DATA")
    return [*([Path(chosen)] if chosen else []), download_folder()]


def _candidates(data_set: DataSet, folder: Path) -> Iterator[Path]:
    """Name the files a data set may be in, those that read fastest first."""
    for table in filter(None, (data_set.name, data_set.part_of)):
        yield folder / f"{table}.parquet"
        yield folder / f"{table}.csv"
    stems = (data_set.name, *data_set.also)
    for place, stem in ((place, stem) for place in (folder, folder / "raw") for stem in stems):
        for original in data_set.originals:
            yield place / stem / original
            yield place / stem / f"{original}.gz"
            yield place / f"{stem}.{original}"
            yield place / f"{stem}.{original}.gz"
        if data_set.originals:
            yield place / f"{stem}.zip"
            yield folder / data_set.name / f"{stem}.zip"


def remedy(data_set: DataSet) -> str:
    """Say how to come by a data set that is not here."""
    if not data_set.by_hand:
        return f"fetch it with `tacit data get {data_set.name}`, or set TACIT_DATA to a folder that has it"
    page = f" ({data_set.page})" if data_set.page else ""
    return f"{data_set.by_hand}{page}, and set TACIT_DATA to the folder you put it in"


def _read(data_set: DataSet, files: tuple[Path, ...]) -> RatingData:
    owners = [data_set] if len(files) == 1 else [DATA_SETS[part] for part in data_set.parts]
    pieces = [_read_file(owner, path) for owner, path in zip(owners, files, strict=True)]
    raw = pieces[0] if len(pieces) == 1 else _joined(pieces)
    ratings = raw.ratings if data_set.decimals is None else np.round(raw.ratings, data_set.decimals)
    return rating_data(
        data_set.name,
        data_set.scale,
        raw.users,
        raw.items,
        ratings,
        sha256=_sha256(data_set, files),
        rounding=data_set.rounding,
    )


def _sha256(data_set: DataSet, files: tuple[Path, ...]) -> str:
    """Return the SHA-256 of the files; where only a part of them counts, or ratings are cleaned, of that too."""
    content = sha256_of(list(files))
    if data_set.part is None and data_set.decimals is None:
        return content
    return hashlib.sha256(f"{content} part {data_set.part} decimals {data_set.decimals}".encode()).hexdigest()


def _read_file(data_set: DataSet, path: Path) -> RawRatings:
    if not _is_table(path):
        return read_original(path, data_set.originals, first_user=data_set.first_user)
    chosen = data_set.part is not None and path.stem == data_set.part_of
    columns = read_table(path, [*_TABLE, *(["part"] if chosen else [])])
    raw = RawRatings(columns.pop("user").ids(), columns.pop("item").ids(), columns.pop("rating").numbers())
    if not chosen:
        return raw
    rows = np.flatnonzero(columns["part"].whole_numbers() == data_set.part)
    if not len(rows):
        raise DataSetError(f"{path} has no rows of part {data_set.part}; is it the right file?")
    return RawRatings(_used(raw.users.take(rows)), _used(raw.items.take(rows)), raw.ratings[rows])


def _is_table(path: Path) -> bool:
    """Tell a table with the columns user, item and rating from an original file that ends in .csv too."""
    if path.suffix != ".csv":
        return path.suffix == ".parquet"
    with path.open("rb") as file:
        names = file.readline(1 << 14).decode("utf-8", "replace").strip().replace('"', "").split(",")
    return set(_TABLE) <= set(names)


def _used(ids: Ids) -> Ids:
    """Leave out ids that no row has."""
    used, codes = np.unique(ids.codes, return_inverse=True)
    return Ids(ids.distinct[used], codes.astype(np.int32))


def _joined(pieces: list[RawRatings]) -> RawRatings:
    users = np.concatenate([piece.users.decoded() for piece in pieces])
    items = np.concatenate([piece.items.decoded() for piece in pieces])
    ratings = np.concatenate([piece.ratings for piece in pieces])
    return RawRatings(column_of(users, "user").ids(), column_of(items, "item").ids(), ratings)


def _invented(data_set: DataSet, shape: WorldShape) -> RatingData:
    world = make_world(data_set.scale, shape=shape, seed=0)
    arrays: tuple[NDArray[np.generic], ...] = (world.users, world.items, world.ratings)
    digest = hashlib.sha256()
    for array in arrays:  # there is no file; this stands for what is in it
        digest.update(np.ascontiguousarray(array).data)
    return rating_data(
        data_set.name,
        data_set.scale,
        column_of(world.users, "user").ids(),
        column_of(world.items, "item").ids(),
        world.ratings.astype(np.float64),
        sha256=digest.hexdigest(),
        synthetic=True,
    )
