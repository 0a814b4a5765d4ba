"""Worlds of several sizes, people and items in proportion, as arrays and as a folder of Parquet files of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from peers.measure import Ratings
from tacit import Policy, RatingScale
from tacit.evaluation.world import LIBIMSETI_SHAPE, WorldShape, make_world
from tacit.privacy.report import POLICY_KEY
from tacit.tables import write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FULL = LIBIMSETI_SHAPE.ratings
SCALE = "1:10:1"
FILES = 8
GROUPS = 50  # of users and of items, equally large, to which their numbers of reports are averaged


def policy() -> Policy:
    """Return the policy whose symbols stand for the ratings themselves: what is measured is speed."""
    return Policy.make("randomized-response", RatingScale.parse(SCALE), "1")


def shape_of(ratings: int) -> WorldShape:
    """Scale people and items with the ratings, so that everybody, and every item, has as many in all worlds."""
    share = ratings / FULL
    return WorldShape(round(share * LIBIMSETI_SHAPE.people), round(share * LIBIMSETI_SHAPE.items), ratings)


def save(ratings: int, folder: Path) -> dict[str, list[float]]:
    """Write a world where drivers find it: arrays for Spark's ALS, files of reports for ours.

    Returns how popular users and items are, beside the mean, in groups from the busiest on.
    """
    shape, scale = shape_of(ratings), RatingScale.parse(SCALE)
    world = make_world(scale, shape=shape)
    Ratings(world.users, world.items, world.ratings, (shape.people, shape.items), SCALE).save(folder)
    symbols = (world.ratings - np.float32(scale.low)).astype(np.int16)
    order = np.random.default_rng(0).permutation(ratings)  # as reports come in: in no order
    (folder / "reports").mkdir()
    for number, rows in enumerate(np.array_split(order, FILES)):
        columns: dict[str, NDArray[Any]] = {
            "user": world.users[rows],
            "item": world.items[rows],
            "symbol": symbols[rows],
        }
        write_columns(folder / "reports" / f"part-{number}.parquet", columns, {POLICY_KEY: policy().id})
    return {"users": popularity(world.users), "items": popularity(world.items)}


def popularity(codes: NDArray[np.int32]) -> list[float]:
    """Return mean numbers of reports in groups of those that have any, in units of the mean of all, falling."""
    counts = np.bincount(codes)
    counts = np.sort(counts[counts > 0])[::-1] / counts[counts > 0].mean()
    return [round(float(group.mean()), 5) for group in np.array_split(counts, min(GROUPS, len(counts)))]
