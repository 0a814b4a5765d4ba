"""Engines: where the sums over all reports are done.

Every fit is a loop around few of them: sweeps that solve one side's rows with the other's held, and sums of rows. An
engine has the reports laid out where it computes, on this machine, on a GPU or on a cluster, and does these; all else
is the same everywhere. Engines agree to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.matrix import Rows
    from tacit.learning.mixture import MixtureStatistics, NoiseMixture
    from tacit.learning.options import Options
    from tacit.privacy.policy import Policy
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import Vocabulary

    Floats = NDArray[np.float32]
    Counts = NDArray[np.int64]


class ReportSummary(Protocol):
    """What is known of all reports together; see `tacit.learning.ReportMatrix`, which is one."""

    @property
    def scale(self) -> RatingScale:
        """The scale of the ratings behind the reports."""
        ...

    @property
    def users(self) -> Vocabulary:
        """Ids of users, those with the most reports first."""
        ...

    @property
    def items(self) -> Vocabulary:
        """Ids of items, those with the most reports first."""
        ...

    @property
    def symbol_values(self) -> Floats | None:
        """What each code stands for; None where reports are plain numbers."""
        ...

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that reports were made under."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """How many users and items there are."""
        ...

    @property
    def reports(self) -> int:
        """How many reports there are."""
        ...

    @property
    def mean(self) -> float:
        """The mean of the values."""
        ...

    @property
    def variance(self) -> float:
        """The mean squared distance of the values from their mean."""
        ...

    @property
    def user_counts(self) -> Counts:
        """How many reports each user has."""
        ...

    @property
    def item_counts(self) -> Counts:
        """How many reports each item has."""
        ...

    @property
    def symbol_counts(self) -> Counts:
        """How many reports have each code."""
        ...

    @property
    def checksum(self) -> str:
        """The SHA-256 of everything that was reported."""
        ...


class Factors(Protocol):
    """Factors of both sides, wherever an engine keeps them."""

    def home(self) -> FactorPair:
        """Return them as arrays on this machine."""
        ...

    def take(self, pair: FactorPair) -> None:
        """Go on from these instead."""
        ...


class Sweeper(Protocol):
    """Alternating sweeps over the reports, less a mean, under a ridge; it holds the factors that they move."""

    @property
    def factors(self) -> Factors:
        """The factors as they are now."""
        ...

    def users(self, mixture: NoiseMixture) -> float:
        """Solve for the users' factors, the items' held (Eq. 10); return by how much they changed, relatively."""
        ...

    def items(self, mixture: NoiseMixture) -> MixtureStatistics:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        ...

    def penalty(self) -> float:
        """Return what the ridge adds to the objective of least squares."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class PosteriorProblem:
    """The rows of one side, to be solved for their posterior; see `tacit.learning.kernels.posterior_sweep`.

    `solved` and `variances` are changed.
    """

    fixed: Floats
    solved: Floats
    variances: Floats
    coordinates: int
    precision: Floats
    centres: Floats
    fixed_variances: Floats


class PosteriorSweeper(Protocol):
    """Sweeps that find the posterior of one side's rows, reports being read in one particular way."""

    def sweep(self, problem: PosteriorProblem, *, by_item: bool) -> float:
        """Solve the rows of users or items; return the weighted sum of squares that is left."""
        ...


class Engine(Protocol):
    """Reports laid out for computing, and the sums over them."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def summary(self) -> ReportSummary:
        """What is known of the reports."""
        ...

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge, components: int = 1) -> Sweeper:
        """Start alternating sweeps from these factors; they are taken over and may be changed.

        `components` is how many the noise will have, for an engine that makes itself ready for just that.
        """
        ...

    def posterior_sweeper(self, table: Floats | None, weights: Floats, centre: float) -> PosteriorSweeper:
        """Read symbols through a table and one weight each; or plain numbers less the centre, with one for all."""
        ...

    def row_sums(self, dense: Floats, *, by_item: bool) -> Floats:
        """Sum, for every user or item, the rows of `dense` of those on the other side it has reports with."""
        ...

    def rated(self) -> Rows:
        """Return which items each user reported on, without what was said."""
        ...

    def prepare(self, options: Options) -> str:
        """Get ready for a fit, and say in a line what it will take; refuse one that cannot be done."""
        ...

    def versions(self) -> dict[str, str]:
        """Name what computes, to be written down with the model."""
        ...
