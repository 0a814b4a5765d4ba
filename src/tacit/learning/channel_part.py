"""What `channel-mf` leaves beside factors and offsets: beliefs for devices, the pattern, and how symbols are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.channel_mf import RESIDUAL, USER_OFFSET, ChannelFit
from tacit.learning.factors import FactorPair
from tacit.privacy.item_beliefs import Beliefs, ItemPattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import ReportSummary

    Floats = NDArray[np.float32]

# A factor that on average moves scores by less than a hundredth of the ratings' deviation is dropped.
_LEAST_EXPLAINED = 1e-4
# How much a person's own taste for popularity varies: shares of the variance of ratings.
_OWN_POPULARITY = (0.01, 0.003)


@dataclass(frozen=True, eq=False, slots=True)
class SymbolReading:
    """How the symbols of one policy are read: the values they stand for, calibrated, and their noise."""

    policy: str
    symbol_values: Floats
    calibrated: Floats
    noise_variance: float


@dataclass(frozen=True, eq=False, slots=True)
class ChannelPart:
    """What a model learned through channels has beside others; without readings it was fitted to plain numbers."""

    beliefs: Beliefs
    pattern: ItemPattern | None
    readings: tuple[SymbolReading, ...]

    @property
    def places(self) -> int:
        """How many coordinates of the pattern's embedding users and items have weights on."""
        return 0 if self.pattern is None else self.pattern.responses.shape[1]

    def of_items(self, count: int) -> ChannelPart:
        """Return what there is on the first items."""
        beliefs = replace(
            self.beliefs,
            item_offset_variances=self.beliefs.item_offset_variances[:count],
            item_factor_variances=self.beliefs.item_factor_variances[:count],
        )
        pattern = self.pattern and replace(
            self.pattern,
            traits=self.pattern.traits[:count],
            responses=self.pattern.responses[:count],
            shares=self.pattern.shares[:count],
        )
        return replace(self, beliefs=beliefs, pattern=pattern)


def finished(fitting: ChannelFit, pair: FactorPair, summary: ReportSummary) -> tuple[FactorPair, float, ChannelPart]:
    """Take a fit apart into rows, mean and the rest; factors that explain nothing are left out."""
    kept = np.flatnonzero(
        np.square(pair.items[:, fitting.sides[1].factors]).mean(axis=0) > _LEAST_EXPLAINED * fitting.scale
    )
    level = float(fitting.items.coefficients[0])
    rows = _with_factors(pair, fitting, kept)
    rows.items[:, rows.rank + 1] -= np.float32(level)
    part = ChannelPart(_beliefs(fitting, kept), _item_pattern(fitting, rows), _symbol_readings(fitting, summary))
    return rows, fitting.report_values.centre + level, part


def _with_factors(pair: FactorPair, fitting: ChannelFit, kept: NDArray[np.int64]) -> FactorPair:
    columns = np.concatenate([np.arange(2 * fitting.places), 2 * fitting.places + kept, [pair.rank, pair.rank + 1]])
    rank = 2 * fitting.places + len(kept)
    return FactorPair(pair.users[:, columns], pair.items[:, columns], rank, offsets=True)


def _beliefs(fitting: ChannelFit, kept: NDArray[np.int64]) -> Beliefs:
    users, items, first = fitting.users, fitting.items, 1 + fitting.places
    own_offset = max(float(users.prior_variances[0]), USER_OFFSET * fitting.scale)
    return Beliefs(
        residual_variance=RESIDUAL * fitting.scale,
        offset_variance=own_offset + float(items.uncertainty[0]),
        factor_variances=users.prior_variances[2:][kept].astype(np.float32),
        item_offset_variances=items.variances[:, 0].copy(),
        item_factor_variances=np.ascontiguousarray(items.variances[:, first + kept]),
    )


def _item_pattern(fitting: ChannelFit, pair: FactorPair) -> ItemPattern | None:
    """Return what a device needs of the pattern; what the provider is unsure of adds to how much people may differ."""
    pattern, places = fitting.pattern, fitting.places
    if not pattern.dimensions:
        return None
    own = [*_OWN_POPULARITY, *[fitting.users.prior_variances[1] / fitting.scale] * pattern.dimensions]
    return ItemPattern(
        traits=np.hstack([pattern.item_popularity, pattern.items]).astype(np.float32),
        trait_variances=(fitting.scale * np.array(own) + fitting.items.uncertainty[1:]).astype(np.float32),
        responses=pair.items[:, places : 2 * places].copy(),
        shares=pattern.shares.astype(np.float32),
        place_scale=pattern.place_scale[:places].astype(np.float32),
    )


def _symbol_readings(fitting: ChannelFit, summary: ReportSummary) -> tuple[SymbolReading, ...]:
    values = fitting.report_values
    if values.values is None or summary.symbol_values is None:
        return ()
    ends = np.cumsum([policy.channel.weights.symbols for policy in summary.policies])
    return tuple(
        SymbolReading(
            policy.id,
            summary.symbol_values[end - policy.channel.weights.symbols : end].copy(),
            values.values[end - policy.channel.weights.symbols : end].astype(np.float32),
            float(values.noise_variances[end - 1]),
        )
        for policy, end in zip(summary.policies, ends, strict=True)
    )
