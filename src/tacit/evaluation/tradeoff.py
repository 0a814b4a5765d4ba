"""The trade-off: accuracy against epsilon for every mechanism, at both places, beside what needs no report at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tacit.errors import MechanismError
from tacit.evaluation.setting import DEVICE, PLACES, PROVIDER, Setting
from tacit.learning import ChannelMfOptions, GlobalMeanOptions
from tacit.privacy.mechanisms import MECHANISMS, TAILORED
from tacit.privacy.noise import NO_NOISE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tacit.evaluation.rows import Row
    from tacit.learning import Options

EPSILONS = ("0.1", "0.3", "0.5", "1", "2", "3", "5")
FEW_FOLDS = 3

_ALSO_WITHOUT_PATTERN = ("bounded-laplace", TAILORED)


@dataclass(frozen=True, slots=True)
class TradeoffPlan:
    """What is varied: mechanisms that are channels, and epsilon; the model is always `channel-mf`."""

    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    epsilons: tuple[str, ...] = EPSILONS
    options: ChannelMfOptions = field(default_factory=ChannelMfOptions)
    seed: int = 0
    folds: int = FEW_FOLDS

    def __post_init__(self) -> None:
        """Refuse what no device could use; the non-private baseline is there anyway, as a control."""
        for mechanism in self.mechanisms:
            if mechanism not in MECHANISMS:
                listed = ", ".join(MECHANISMS)
                raise MechanismError(f"mechanism {mechanism[:40]!r} is no channel; choose among {listed}")

    def curves(self, place: str) -> dict[str, list[Setting]]:
        """Return the settings of every mechanism at a place, by rising epsilon."""
        return {name: self._by_epsilon(name, self.options, place) for name in self.mechanisms}

    def blind_curves(self, place: str) -> dict[str, list[Setting]]:
        """Return the same on devices, of a model that leaves out which items were rated: some mechanisms are enough."""
        chosen = [name for name in self.mechanisms if name in _ALSO_WITHOUT_PATTERN] or self.mechanisms[:1]
        blind = replace(self.options, pattern=False)
        return {name: self._by_epsilon(name, blind, place) for name in chosen if place == DEVICE}

    def non_private(self, place: str) -> Setting:
        """Return the setting of the same model learned from true ratings."""
        return self._setting(NO_NOISE, None, self.options, place)

    def unheard(self, place: str) -> Setting:
        """Return the setting that hears no report.

        On the device its own ratings and the pattern are left. A provider has a constant: the true mean, which it would
        not even know.
        """
        if place == PROVIDER:
            return self._setting(NO_NOISE, None, GlobalMeanOptions(), place)
        return self._setting(NO_NOISE, None, replace(self.options, reports=False), place)

    def settings(self) -> list[Setting]:
        """Return every setting: the curves first, then the controls."""
        curves = [settings for place in PLACES for settings in self.curves(place).values()]
        controls = [settings for place in PLACES for settings in self.blind_curves(place).values()]
        levels = [level(place) for level in (self.non_private, self.unheard) for place in PLACES]
        return [setting for settings in (*curves, *controls, levels) for setting in settings]

    def _by_epsilon(self, mechanism: str, options: Options, place: str) -> list[Setting]:
        rising = sorted(self.epsilons, key=float)
        return [self._setting(mechanism, epsilon, options, place) for epsilon in rising]

    def _setting(self, mechanism: str, epsilon: str | None, options: Options, place: str) -> Setting:
        return Setting(mechanism, epsilon, options, self.seed, self.folds, place)


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """The rows of a plan, by what they say; a curve is a mechanism's rows by rising epsilon."""

    plan: TradeoffPlan
    rows: tuple[Row, ...]

    def curves(self, place: str) -> dict[str, list[Row]]:
        """Return a curve for every mechanism."""
        return {name: self._found(settings) for name, settings in self.plan.curves(place).items()}

    def blind_curves(self, place: str) -> dict[str, list[Row]]:
        """Return the curves of a model that leaves out which items were rated; none at the provider."""
        return {name: self._found(settings) for name, settings in self.plan.blind_curves(place).items()}

    def non_private(self, place: str) -> Row:
        """Return the row learned from true ratings."""
        return self._found([self.plan.non_private(place)])[0]

    def unheard(self, place: str) -> Row:
        """Return the row without any report."""
        return self._found([self.plan.unheard(place)])[0]

    def _found(self, settings: Iterable[Setting]) -> list[Row]:
        by_setting = {row.setting: row for row in self.rows}
        return [by_setting[setting] for setting in settings]
