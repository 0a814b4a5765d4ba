"""The model: what a fit returns, finished and immutable; it predicts, recommends and can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.learning.fold_in import fold_in
from tacit.learning.kernels import MOST_RANK, padded
from tacit.learning.model_files import read_model, write_model
from tacit.learning.model_parts import (
    Offsets,
    Profile,
    Provenance,
    check_channel,
    check_noise,
    check_offsets,
    check_rated,
    check_ridge,
)
from tacit.learning.predict import Predictions, known_items, predict_for, predict_pairs
from tacit.learning.recommend import Block, Recommendations, recommend_all, recommend_for, similar_items
from tacit.privacy.item_model import ItemModel, check_floats, rank_of
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from tacit.learning.channel_part import ChannelPart
    from tacit.learning.matrix import Rows
    from tacit.learning.mixture import NoiseMixture
    from tacit.learning.model_parts import Floats
    from tacit.learning.trace import FitTrace
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import IdList

__all__ = ["Block", "Model", "Offsets", "Predictions", "Profile", "Provenance", "Recommendations"]


@dataclass(frozen=True, eq=False)
class Model:
    """What was learned from reports.

    The score of a user and an item is the mean, both offsets and the product of factors; a prediction is the score
    cut off at the ends of the scale. Users and items are numbered as in the report matrix: by falling number of
    reports, so that those without any come last. Ids match by their text form everywhere. The arrays are made
    read-only, and parts that do not fit together or hold a number that is not finite are refused.
    """

    name: str
    """Which model it is, such as `mog-mf`."""
    options: dict[str, Any]
    """What the fit was told, in plain values."""
    scale: RatingScale
    users: Vocabulary
    items: Vocabulary
    user_factors: Floats
    item_factors: Floats
    offsets: Offsets
    """Added to the product of factors."""
    fallback: Offsets
    """The answer where the user or the item is unknown or has no report."""
    noise: NoiseMixture
    """How far reports lie from scores; its precision weighs the reports of a person who is folded in."""
    factor_ridge: float
    offset_ridge: float | None
    """None where the model learns no offset of its own for a user."""
    rated: Rows
    """Which items each user reported on, without values."""
    trace: FitTrace
    provenance: Provenance
    channel: ChannelPart | None = None
    """What a model learned through the channels of its reports has beside the others."""

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        users, items = len(self.users), len(self.items)
        if not users or not items:
            raise ModelError(f"a model of {users} users and {items} items says nothing; fit at least one report")
        if self.rank > MOST_RANK:
            raise ModelError(f"rank {self.rank} is above the limit of {MOST_RANK}; fit a lower one")
        check_floats("user factors", self.user_factors, (users, self.rank))
        check_floats("item factors", self.item_factors, (items, self.rank))
        check_offsets("offsets", self.offsets, (users, items))
        check_offsets("fallback offsets", self.fallback, (users, items))
        check_rated(self.rated, users, items)
        check_noise(self.noise)
        check_ridge("factors", self.factor_ridge)
        check_ridge("offsets", 0 if self.offset_ridge is None else self.offset_ridge)
        if self.channel is not None:
            check_channel(self.channel, items, self.rank)

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Read a folder that `save` wrote; anything else is refused."""
        return cls(**read_model(Path(folder)))

    def save(self, folder: str | Path, *, least_reports: int = 1) -> None:
        """Write a folder, the public item model inside it as `items/`, of items with so many reports at least.

        It is there complete or not at all. A folder that is there already is replaced if it is a model, or empty.
        """
        write_model(self, Path(folder), least_reports)

    @property
    def rank(self) -> int:
        """How many factors users and items have."""
        return rank_of(self.user_factors)

    @property
    def reports(self) -> int:
        """How many reports the model was fitted to."""
        return len(self.rated.columns)

    @cached_property
    def reported_items(self) -> int:
        """How many items were reported on: those with the indices below."""
        return int(self.rated.columns.max()) + 1

    def predict(self, users: IdList, items: IdList) -> Predictions:
        """Predict the ratings of pairs of users and items, given as two lists or arrays of ids.

        Where the user is unknown, or has no report, the prediction is the mean and the item's offset; where the item
        is, the mean and the user's offset; where both are, the mean. Such predictions are marked as fallback.
        """
        return predict_pairs(self, users, items)

    def recommend(self, user: str | int, n: int = 10, *, exclude_rated: bool = True) -> Recommendations:
        """Find the n best items for a user, in order of score; ties go to the more popular item.

        Items nobody reported on are never recommended. Somebody unknown, or without a report, gets the items rated
        best by everybody, marked as fallback. There may be fewer than n.
        """
        profile = self.profile_of(user)
        return recommend_for(self, profile, n, profile.rated if exclude_rated else profile.rated[:0])

    def recommend_all(
        self, n: int = 10, *, exclude_rated: bool = True, block: int | None = None, threads: int | None = None
    ) -> Iterator[Block]:
        """Find the n best items for every user, as `recommend` does, in blocks of users to keep memory low."""
        return recommend_all(self, n, exclude_rated=exclude_rated, block=block, threads=threads)

    def similar(self, item: str | int, n: int = 10) -> list[tuple[str | int, float]]:
        """Find the n items most like another by the cosine of their factors, best first."""
        return similar_items(self, item, n)

    def profile_of(self, user: str | int) -> Profile:
        """Return a user's row; for somebody unknown, or without a report, one that says nothing."""
        index = self.users.index_of(user)
        reports = slice(0, 0) if index is None else slice(*self.rated.starts[index : index + 2])
        rated = self.rated.columns[reports]
        if index is None or not len(rated):
            return Profile(np.zeros(self.rank, dtype=np.float32), 0.0, rated)
        return Profile(self.user_factors[index], float(self.offsets.users[index]), rated)

    def fold_in(self, items: IdList, values: ArrayLike, *, policy: str | None = None) -> Profile:
        """Make the profile of a new person from all of their reports, without fitting again.

        This solves one row from the full history: to add a report, give all of them again. Items that the model does
        not know are ignored and counted. The model itself does not change.

        Args:
            items: The ids of the items reported on, each once.
            values: What the reported symbols stand for.
            policy: The id of the policy they were reported under; needed only where the model was learned through
                the channels of several.
        """
        return fold_in(self, items, values, policy)

    def recommend_for(self, profile: Profile, n: int = 10, *, exclude: IdList | None = None) -> Recommendations:
        """Find the n best items for a profile, without the ids in `exclude`: by default, those it was made from."""
        if exclude is None:
            return recommend_for(self, profile, n, profile.rated)
        left_out = np.unique(known_items(self, exclude))
        return recommend_for(self, profile, n, left_out[left_out >= 0])

    def predict_for(self, profile: Profile, items: IdList) -> Predictions:
        """Predict a profile's ratings of items; an unknown item gets the mean and the profile's own offset."""
        return predict_for(self, profile, items)

    def item_model(self, *, least_reports: int = 1) -> ItemModel:
        """Return the public part: items, and no user's row.

        What is published of an item that few people reported on follows from those few: its factors from their
        reports, its traits from what else they rated, which epsilon does not protect. A provider who minds leaves
        out items with fewer than `least_reports`; docs/threat-model.md says how well raters can be told.
        """
        enough = np.bincount(self.rated.columns, minlength=len(self.items)) >= max(least_reports, 1)
        if not enough.any():
            raise ModelError(f"no item has {least_reports} reports; ask for fewer")
        count = int(enough.sum())  # the busiest items come first
        part = None if self.channel is None else self.channel.of_items(count)
        learned = self.item_factors[:count, 0 if part is None else 2 * part.places :]
        return ItemModel(
            self.scale,
            Vocabulary(self.items.ids[:count]),
            self.offsets.mean,
            self.offsets.items[:count],
            np.ascontiguousarray(learned),
            None if part is None else part.beliefs,
            None if part is None else part.pattern,
        )

    @cached_property
    def item_rows_have_offsets(self) -> bool:
        """Whether items have offsets; where not, leaving them out of `item_rows` can save a third of the work."""
        return bool(self.offsets.items.any())

    @cached_property
    def item_rows(self) -> Floats:
        """The items with reports as the kernel of top lists wants them."""
        factors, offsets = self.item_factors[: self.reported_items], self.offsets.items[: self.reported_items, None]
        return padded(np.hstack([factors, offsets]) if self.item_rows_have_offsets else factors)
