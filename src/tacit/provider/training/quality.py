"""Quality: how far predictions lie from ratings, measured on held-out reports and never on a rating.

The channel is known, so its symbols can be given two values: one whose mean is the rating behind it, and one whose
mean is the rating's square, whatever that rating was. Then the square less twice the product of value and prediction
plus the prediction's square has the squared error as its mean, and no noise has to be guessed.

Channels with fewer symbols than ratings cannot tell all of that. What they leave open follows the histogram of
ratings that is deconvolved from all held-out reports; and among ratings that lead to the same symbols, predictions
may follow the rating not at all, or as evenly as elsewhere. The interval has room for both, the estimate lies between.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError, ReportError
from tacit.learning.cells import cells_of
from tacit.learning.deconvolution import fit_prior
from tacit.learning.reports import Alphabet, reports_of_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tacit.learning.model import Model
    from tacit.learning.reports import Part
    from tacit.privacy.channel import Channel
    from tacit.privacy.prior import Prior

    Doubles = NDArray[np.float64]

# Devices are dealt into so many groups; what the estimate varies by when one is left out gives its error.
_GROUPS = 40
_LEAST_SINGULAR = 1e-9


@dataclass(frozen=True, slots=True)
class Quality:
    """The root mean square error on true ratings, as held-out reports tell it, within a 95 % interval."""

    held_out: int
    """How many reports were held out."""
    rmse: float
    rmse_low: float
    rmse_high: float
    constant_rmse: float
    """The same of the best constant: what a model has to beat."""

    def to_document(self) -> dict[str, float]:
        """Write the figures as plain values."""
        return asdict(self)


def hold_out(parts: Sequence[Part], *, share: float = 0.1, rng: np.random.Generator) -> tuple[list[Part], list[Part]]:
    """Split reports at random into those to learn from and those to measure on, one at least of either."""
    total = sum(len(users) for users, *_ in parts)
    held = round(share * total) if 0 < share < 1 else 0
    if not 0 < held < total:
        msg = f"a share of {share} of {total} reports leaves none to learn from or to measure on"
        raise InvalidInputError(f"{msg}; choose one between 0 and 1, or gather more reports")
    chosen = np.zeros(total, dtype=np.bool_)
    chosen[rng.choice(total, held, replace=False)] = True
    return _taken(parts, ~chosen), _taken(parts, chosen)


def quality(model: Model, held: Sequence[Part]) -> Quality:
    """Measure a model on reports it was not fitted to."""
    sums = _sums(model, held)
    errors, spread, width = sums.total().errors(), _spread(sums), float(model.scale.width)
    return Quality(
        held_out=sums.reports,
        rmse=_root(errors.middle, width),
        rmse_low=_root(errors.least - spread, width),
        rmse_high=_root(errors.most + spread, width),
        constant_rmse=_root(errors.constant, width),
    )


@dataclass(frozen=True, slots=True)
class _Errors:
    """Mean squared errors, of predictions in either reading, and of the best constant."""

    least: float
    most: float
    constant: float

    @property
    def middle(self) -> float:
        return (self.least + self.most) / 2


@dataclass(frozen=True, eq=False, slots=True)
class _Sums:
    """Of every code: how many reports, and the sum of what was predicted for them; and all squared predictions."""

    channels: tuple[Channel, ...]
    counts: NDArray[np.int64]
    predicted: Doubles
    squares: Doubles

    @property
    def groups(self) -> int:
        return len(self.counts)

    @property
    def reports(self) -> int:
        return int(self.counts.sum())

    def group(self, one: int) -> _Sums:
        return _Sums(self.channels, self.counts[one], self.predicted[one], self.squares[one])

    def total(self) -> _Sums:
        return _Sums(self.channels, self.counts.sum(axis=0), self.predicted.sum(axis=0), self.squares.sum(axis=0))

    def without(self, other: _Sums) -> _Sums:
        return _Sums(
            self.channels,
            self.counts - other.counts,
            self.predicted - other.predicted,
            self.squares - other.squares,
        )

    def errors(self) -> _Errors:
        """Estimate mean squared errors."""
        ends = np.cumsum([channel.weights.symbols for channel in self.channels])
        prior = fit_prior(list(zip(self.channels, np.split(self.counts, ends[:-1]), strict=True)))
        ratings, share = prior.scale.ratings, self.counts / self.reports
        plain = [_values(channel, prior, ratings) for channel in self.channels]
        even = [_stretched(*reading, prior) for reading in zip(plain, self.channels, strict=True)]
        square = share @ np.concatenate([_values(channel, prior, ratings**2) for channel in self.channels])
        least, most = sorted(
            square - (2 * self.predicted @ np.concatenate(values) - self.squares) / self.reports
            for values in (plain, even)
        )
        return _Errors(float(least), float(most), float(square - (share @ np.concatenate(plain)) ** 2))


def _stretched(values: Doubles, channel: Channel, prior: Prior) -> Doubles:
    """Stretch values about the prior's mean until their regression on the rating has slope 1.

    Values that are unbiased have it already.
    """
    slope = prior.probabilities * (prior.scale.ratings - prior.mean) @ channel.likelihood @ values / prior.variance
    return np.asarray(prior.mean + (values - prior.mean) / slope)


def _values(channel: Channel, prior: Prior, wanted: Doubles) -> Doubles:
    """Value symbols so that their mean under every rating is what is wanted of it, with the least variance.

    Where the channel cannot do that, the means come as close as they can on average over the prior.
    """
    likely = channel.likelihood
    weight = np.sqrt(prior.probabilities)[:, np.newaxis] / np.sqrt(prior.probabilities @ likely)
    inverse = np.linalg.pinv(weight * likely, rcond=_LEAST_SINGULAR)
    return np.asarray(inverse @ (np.sqrt(prior.probabilities) * wanted) / np.sqrt(prior.probabilities @ likely))


def _sums(model: Model, held: Sequence[Part]) -> _Sums:
    alphabet = Alphabet.of(policy for *_, policy in held)
    if alphabet.scale != model.scale:
        raise ReportError(f"reports on {alphabet.scale} cannot judge a model on {model.scale}; hold out its own")
    cells = cells_of(reports_of_parts(held, alphabet))
    predicted = np.concatenate([model.predict(users, items).ratings for users, items, *_ in held]).astype(np.float64)
    groups = min(_GROUPS, len(cells.users))
    group = cells.user_of % groups
    place, cut = group * alphabet.size + cells.values, (groups, alphabet.size)
    return _Sums(
        tuple(policy.channel for policy in alphabet.policies),
        np.bincount(place, minlength=groups * alphabet.size).astype(np.int64).reshape(cut),
        _weighed(place, predicted, groups * alphabet.size).reshape(cut),
        _weighed(group, np.square(predicted), groups),
    )


def _weighed(places: NDArray[np.int32], weights: Doubles, size: int) -> Doubles:
    return np.bincount(places, weights=weights, minlength=size).astype(np.float64)


def _spread(sums: _Sums) -> float:
    """Return half the width of a 95 % interval from the estimates that leave one group out (the jackknife)."""
    from scipy.stats import t  # noqa: PLC0415 - a slow import

    if sums.groups < 2:  # noqa: PLR2004 - one device says nothing of how others differ
        return float("inf")
    total = sums.total()
    left = [total.without(sums.group(one)).errors().middle for one in range(sums.groups)]
    deviation = np.sqrt(sums.groups - 1) * np.std(left)
    return float(t.ppf(0.975, sums.groups - 1) * deviation)


def _root(squared: float, most: float) -> float:
    """Return the root of a mean square, which noise may have taken below zero or beyond the width of the scale."""
    return float(np.sqrt(np.clip(squared, 0.0, most**2)))


def _taken(parts: Sequence[Part], chosen: NDArray[np.bool_]) -> list[Part]:
    """Return the chosen reports of each part; parts without any are left out."""
    ends = np.cumsum([len(users) for users, *_ in parts])
    taken: list[Part] = []
    for (users, items, symbols, policy), rows in zip(parts, np.split(chosen, ends[:-1]), strict=True):
        if rows.any():
            taken.append((np.asarray(users)[rows], np.asarray(items)[rows], np.asarray(symbols)[rows], policy))
    return taken
