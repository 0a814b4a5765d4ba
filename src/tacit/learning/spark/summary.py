"""What is known of reports on a cluster: the same, to the last digit, as of a report matrix on one machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.checksum import checksum_of, whole
from tacit.learning.model_parts import structure
from tacit.learning.reports import code_type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.checksum import Named
    from tacit.learning.matrix import Rows
    from tacit.learning.spark.layout import Layout
    from tacit.privacy.policy import Policy
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import Vocabulary

    Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparkSummary:
    """What is known of all reports of a layout together."""

    layout: Layout

    @property
    def scale(self) -> RatingScale:
        """The scale of the ratings behind the reports."""
        return self.layout.alphabet.scale

    @property
    def users(self) -> Vocabulary:
        """Ids of users, those with the most reports first."""
        return self.layout.users.vocabulary

    @property
    def items(self) -> Vocabulary:
        """Ids of items, those with the most reports first."""
        return self.layout.items.vocabulary

    @property
    def symbol_values(self) -> NDArray[np.float32]:
        """What each code stands for."""
        return self.layout.alphabet.symbol_values

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that reports were made under."""
        return self.layout.alphabet.policies

    @property
    def shape(self) -> tuple[int, int]:
        """How many users and items there are."""
        return len(self.users), len(self.items)

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return int(self.symbol_counts.sum())

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return float(self.symbol_counts @ self.symbol_values.astype(np.float64)) / self.reports

    @property
    def variance(self) -> float:
        """The mean squared distance of the values from their mean."""
        return float(self.symbol_counts @ (self.symbol_values.astype(np.float64) - self.mean) ** 2) / self.reports

    @property
    def user_counts(self) -> Counts:
        """How many reports each user has."""
        return self.layout.users.counts

    @property
    def item_counts(self) -> Counts:
        """How many reports each item has."""
        return self.layout.items.counts

    @property
    def symbol_counts(self) -> Counts:
        """How many reports have each code."""
        return self.layout.symbol_counts

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 that a report matrix of these reports has; they come past the driver chunk after chunk."""
        codes = code_type_of(len(self.symbol_values))
        return checksum_of(
            self,
            [whole("starts", self._starts()), self._in_chunks("columns", np.int32), self._in_chunks("values", codes)],
        )

    def rated(self) -> Rows:
        """Gather which items each user reported on."""
        columns, done = np.empty(self.reports, dtype=np.int32), 0
        for piece in self.layout.by_user.in_order("columns"):
            columns[done : done + len(piece)] = piece
            done += len(piece)
        return structure(self._starts(), columns)

    def _starts(self) -> Counts:
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.user_counts)])

    def _in_chunks(self, name: str, kind: type[Any]) -> Named:
        return name, np.dtype(kind), self.reports, self.layout.by_user.in_order(name)
