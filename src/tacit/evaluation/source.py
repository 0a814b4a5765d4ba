"""Where a study's ratings come from: a file with its scale, or a data set known by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.errors import InvalidInputError
from tacit.evaluation.datasets import DATA_SETS, load_data_set
from tacit.evaluation.ratings import RatingData, read_rating_data

if TYPE_CHECKING:
    from tacit.privacy.scale import RatingScale


@dataclass(frozen=True, slots=True)
class DataSource:
    """What to read; small enough to be handed to other processes, which read for themselves."""

    place: str
    """A file, or the name of a data set."""
    scale: RatingScale | None = None
    """Needed for a file; a data set declares its own, which another one replaces."""
    rounding: bool = False

    def __post_init__(self) -> None:
        """Refuse a file without a scale."""
        if self.scale is None and not self.named:
            names = ", ".join(DATA_SETS)
            raise InvalidInputError(f"{self.place}: say its --scale, such as 1:5:1, or name a data set: {names}")

    @property
    def named(self) -> bool:
        """Whether it is a data set known by name."""
        return self.place in DATA_SETS

    def load(self) -> RatingData:
        """Read the ratings."""
        if self.scale is None:
            return load_data_set(self.place)
        if not self.named:
            return read_rating_data(self.place, self.scale, rounding=self.rounding)
        data = load_data_set(self.place)
        ranks = self.scale.ranks_of(data.ratings, rounding=self.rounding or DATA_SETS[self.place].rounding)
        return replace(data, scale=self.scale, ranks=ranks)
