"""What a study varies: mechanism, epsilon, model and its options; one setting is one row of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, MechanismError, ModelError
from tacit.evaluation.pg_mf import PgMfOptions
from tacit.learning import MODELS, Options
from tacit.privacy.exact import decimal_text, parse_epsilon
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.noise import NO_NOISE, UNBOUNDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PROVIDER, DEVICE = "provider", "device"
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
        if (self.at == DEVICE) != is_pg_mf:
            msg = f"{self.options.model} predicts at the {DEVICE if is_pg_mf else PROVIDER}, not at {self.at[:40]!r}"
            raise ModelError(f"{msg}; ranking on the device with other models is not part of this version of tacit")
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


def _check_mechanism(mechanism: str, known: Sequence[str] = (*STUDIED_MECHANISMS, PG_MF)) -> None:
    if mechanism not in known:
        listed = ", ".join(known)
        raise MechanismError(f"mechanism {mechanism[:40]!r} is not one of {listed}; choose one of these")


def check_folds(folds: int) -> None:
    """Refuse a number of folds that leaves nothing to learn from or to test on."""
    if folds < 2:  # noqa: PLR2004 - one to learn from, one to test on
        raise InvalidInputError(f"{folds} folds leave nothing to learn from; choose at least 2")


def grid(
    mechanisms: Iterable[str], epsilons: Iterable[str], models: Iterable[Options], *, seed: int = 0, folds: int = 10
) -> Iterator[Setting]:
    """Combine mechanisms, epsilons and models; what has no epsilon, or no mechanism of its choice, comes once."""
    mechanisms, epsilons, models = list(mechanisms), list(epsilons), list(models)
    usual = [options for options in models if not isinstance(options, PgMfOptions)]
    for mechanism in mechanisms:
        _check_mechanism(mechanism)
        for epsilon in [None] if mechanism == NO_NOISE else epsilons:
            yield from (Setting(mechanism, epsilon, options, seed, folds) for options in usual)
    for options in models:
        if isinstance(options, PgMfOptions):
            yield from (Setting(PG_MF, epsilon, options, seed, folds, DEVICE) for epsilon in epsilons)
