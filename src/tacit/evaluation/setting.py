"""What a study varies: mechanism, epsilon, model and its options; one setting is one row of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, MechanismError, ModelError
from tacit.evaluation.pg_mf import PgMfOptions
from tacit.learning import MODELS, ChannelMfOptions, Options
from tacit.privacy.exact import decimal_text, parse_epsilon
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.noise import NO_NOISE, UNBOUNDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PROVIDER, DEVICE = PLACES = ("provider", "device")
PG_MF = PgMfOptions.model

STUDIED_MECHANISMS = (*MECHANISMS, UNBOUNDED, NO_NOISE)
STUDIED_MODELS: dict[str, type[Options]] = {**MODELS, PG_MF: PgMfOptions}


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of a study: everything that decides its figures, but for the data.

    PG-MF is mechanism and model in one; it has no other mechanism, and predicts on the device. Without a mechanism
    there is no epsilon.
    """

    mechanism: str
    epsilon: str | None
    options: Options
    seed: int = 0
    folds: int = 10
    at: str = PROVIDER

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        is_pg_mf = isinstance(self.options, PgMfOptions)
        _check_mechanism(self.mechanism, (PG_MF,) if is_pg_mf else STUDIED_MECHANISMS)
        if self.at not in PLACES or (is_pg_mf and self.at != DEVICE):
            places = DEVICE if is_pg_mf else " or ".join(PLACES)
            raise ModelError(f"{self.options.model} predicts at the {places}, not at {self.at[:40]!r}; choose one")
        if self.at == DEVICE and not ranks_on_devices(self.options):
            raise ModelError(f"{self.options.model} has no item factors for a device to rank with; choose {PROVIDER}")
        if self.mechanism == UNBOUNDED and isinstance(self.options, ChannelMfOptions):
            raise MechanismError(
                f"{self.options.model} reads reports through their channel, and {UNBOUNDED} noise has none; choose "
                "clamped-laplace"
            )
        if (self.epsilon is None) != (self.mechanism == NO_NOISE):
            raise InvalidInputError(f"epsilon {self.epsilon} does not go with {self.mechanism!r}; only none has none")
        if self.epsilon is not None and decimal_text(parse_epsilon(self.epsilon)) != self.epsilon:
            raise InvalidInputError(f"epsilon {self.epsilon!r} is not in its plain form; write it without zeros around")
        if self.seed < 0:
            raise InvalidInputError(f"seed {self.seed} is negative; choose 0 or more")
        check_folds(self.folds)

    @property
    def model(self) -> str:
        """The model's name."""
        return self.options.model

    @property
    def rank(self) -> int | None:
        """How many factors the model has, if it has any."""
        return getattr(self.options, "rank", None)

    def to_document(self) -> dict[str, Any]:
        """Write the setting as plain values."""
        return {
            "mechanism": self.mechanism,
            "model": self.model,
            "at": self.at,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "rank": self.rank,
            "folds": self.folds,
            "seed": self.seed,
            "options": self.options.to_document(),
        }


def ranks_on_devices(options: Options) -> bool:
    """Tell whether a model has something that a device can rank with: item factors."""
    return hasattr(options, "rank")


def _check_mechanism(mechanism: str, known: Sequence[str] = (*STUDIED_MECHANISMS, PG_MF)) -> None:
    if mechanism not in known:
        listed = ", ".join(known)
        raise MechanismError(f"mechanism {mechanism[:40]!r} is not one of {listed}; choose one of these")


def check_folds(folds: int) -> None:
    """Refuse a number of folds that leaves nothing to learn from or to test on."""
    if folds < 2:  # noqa: PLR2004 - one to learn from, one to test on
        raise InvalidInputError(f"{folds} folds leave nothing to learn from; choose at least 2")


def grid(  # noqa: PLR0913 - one for each thing that is varied, and two about how
    mechanisms: Iterable[str],
    epsilons: Iterable[str],
    models: Iterable[Options],
    *,
    places: Sequence[str] = (PROVIDER,),
    seed: int = 0,
    folds: int = 10,
) -> Iterator[Setting]:
    """Combine mechanisms, epsilons, models and places; what has no epsilon, or no mechanism of its choice, comes once.

    A model that no device can rank with is left out there.
    """
    mechanisms, epsilons, models = list(mechanisms), list(epsilons), list(models)
    usual = [options for options in models if not isinstance(options, PgMfOptions)]
    for mechanism in mechanisms:
        _check_mechanism(mechanism)
        for epsilon in [None] if mechanism == NO_NOISE else epsilons:
            for options in usual:
                there = [place for place in places if place == PROVIDER or ranks_on_devices(options)]
                yield from (Setting(mechanism, epsilon, options, seed, folds, place) for place in there)
    for options in models:
        if isinstance(options, PgMfOptions):
            yield from (Setting(PG_MF, epsilon, options, seed, folds, DEVICE) for epsilon in epsilons)
