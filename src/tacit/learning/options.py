"""What can be chosen for each model, and the defaults."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from tacit.errors import ModelError
from tacit.learning.kernels import MOST_COMPONENTS, MOST_RANK

STARTS = ("random", "svd")
FILLS = ("item", "global")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of some model; one subclass for each."""

    model: ClassVar[str]

    def to_document(self) -> dict[str, Any]:
        """Write the options as plain values."""
        return asdict(self)

    def _check(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        whole = {field.name: field.type for field in fields(self)}[name] == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            raise ModelError(f"{self.model}: {name} is {value!r}; give {kind} from {low} to {high}")

    def _check_choice(self, name: str, choices: tuple[object, ...]) -> None:
        if getattr(self, name) not in choices:
            shown = ", ".join(str(choice) for choice in choices)
            raise ModelError(f"{self.model}: {name} is {getattr(self, name)!r}; choose one of {shown}")


MOST_ITERATIONS = 10_000
MOST_RIDGE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class MogMfOptions(Options):
    """The paper's model: factors, and noise as a mixture of zero-mean Gaussians.

    Attributes:
        rank: Number of factors.
        components: Number of Gaussians, the paper's K.
        regularisation: Precision of a Gaussian prior on every factor; 0 is the paper.
        tolerance: Stop when an iteration changes the user factors by less than this share of their size.
        iterations: Stop after so many iterations in any case.
        start: Where the factors start: `random` (the paper) or `svd`.
    """

    model: ClassVar[str] = "mog-mf"

    rank: int = 3
    components: int = 4
    regularisation: float = 0.0
    tolerance: float = 1e-4
    iterations: int = 100
    start: str = "random"

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("rank", 1, MOST_RANK)
        self._check("components", 1, MOST_COMPONENTS)
        self._check("regularisation", 0, MOST_RIDGE)
        self._check("tolerance", 0, 1)
        self._check("iterations", 1, MOST_ITERATIONS)
        self._check_choice("start", STARTS)


# Coordinates of the pattern's embedding that provider and device use: the provider's reports are too noisy for more
# than the first of them.
MOST_PLACES = 16
MOST_PATTERN_DIMENSIONS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMfOptions(Options):
    """Ours: reports read through their known channel, every variance learned from the reports.

    A mean, offsets of users and items, factors, and what the rated-or-not pattern says: popularity, and an embedding
    that offsets and tastes are drawn to. Factors that the reports do not support are dropped.

    Attributes:
        rank: Number of factors beside the pattern's, at most; fewer where the reports do not support them.
        pattern: Whether to use which items were rated, which the provider sees anyway.
        reports: Whether to use what was reported; without, nothing but the pattern is left, as a control.
        dimensions: Coordinates of the pattern's embedding.
        tune: Whether prior variances are learned from the reports, or left at their defaults.
        tolerance: Stop when an iteration changes the user rows by less than this share of their size.
        iterations: Stop after so many iterations in any case.
    """

    model: ClassVar[str] = "channel-mf"

    rank: int = 8
    pattern: bool = True
    reports: bool = True
    dimensions: int = 48
    tune: bool = True
    tolerance: float = 1e-3
    iterations: int = 20

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("rank", 0, MOST_RANK - 2 * MOST_PLACES)
        self._check_choice("pattern", (False, True))
        self._check_choice("reports", (False, True))
        self._check("dimensions", 1, MOST_PATTERN_DIMENSIONS)
        self._check_choice("tune", (False, True))
        self._check("tolerance", 0, 1)
        self._check("iterations", 1, MOST_ITERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MfAlsOptions(Options):
    """Factors by alternating least squares: the objective of Eq. 1, with a ridge.

    Attributes:
        rank: Number of factors.
        regularisation: Added to the objective: this times the sum of squares of all factors.
        offsets: Whether there is a mean, and an offset for every user and item, beside the factors.
        offset_regularisation: The same ridge for the offsets.
        tolerance: Stop when an iteration changes the user factors by less than this share of their size.
        iterations: Stop after so many iterations in any case.
        start: Where the factors start: `random` or `svd` (`random` when there are offsets).
    """

    model: ClassVar[str] = "mf-als"

    rank: int = 3
    regularisation: float = 5.0
    offsets: bool = False
    offset_regularisation: float = 5.0
    tolerance: float = 1e-4
    iterations: int = 100
    start: str = "random"

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("rank", 1, MOST_RANK)
        self._check("regularisation", 0, MOST_RIDGE)
        self._check_choice("offsets", (False, True))
        self._check("offset_regularisation", 0, MOST_RIDGE)
        self._check("tolerance", 0, 1)
        self._check("iterations", 1, MOST_ITERATIONS)
        self._check_choice("start", STARTS)
        if self.offsets and self.start != "random":
            raise ModelError(f"{self.model}: start is {self.start!r} with offsets; only random goes with offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class MfSgdOptions(Options):
    """Factors by stochastic gradient steps on Eq. 1.

    On reports of clamped Laplace noise this is the baseline ISGD; the defaults are its published settings. With
    offsets it is what other libraries call SVD.

    Attributes:
        rank: Number of factors.
        step: Length of a gradient step; shorter where reports stand for numbers so large that it would overshoot.
        regularisation: Pull of every step towards zero, on factors and offsets.
        offsets: Whether there is a mean, and an offset for every user and item, beside the factors.
        epochs: How often to run through all reports.
    """

    model: ClassVar[str] = "mf-sgd"

    rank: int = 3
    step: float = 0.01
    regularisation: float = 0.06
    offsets: bool = False
    epochs: int = 50

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("rank", 1, MOST_RANK)
        self._check("step", 1e-9, 10)
        self._check("regularisation", 0, MOST_RIDGE)
        self._check_choice("offsets", (False, True))
        self._check("epochs", 1, MOST_ITERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SvdOptions(Options):
    """Truncated singular value decomposition of the matrix with its gaps filled in.

    Attributes:
        rank: Number of singular values kept.
        fill: What fills a gap: the `item`'s mean report, or the `global` mean.
    """

    model: ClassVar[str] = "svd"

    rank: int = 3
    fill: str = "item"

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("rank", 1, MOST_RANK)
        self._check_choice("fill", FILLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsOptions(Options):
    """A mean, and an offset for every user and every item.

    Attributes:
        regularisation: So many reports of no offset are added to everybody's own.
    """

    model: ClassVar[str] = "offsets"

    regularisation: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check("regularisation", 0, MOST_RIDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalMeanOptions(Options):
    """The mean of all reports, for everybody."""

    model: ClassVar[str] = "global-mean"


MODELS: dict[str, type[Options]] = {
    kind.model: kind
    for kind in (
        MogMfOptions,
        ChannelMfOptions,
        MfAlsOptions,
        MfSgdOptions,
        SvdOptions,
        OffsetsOptions,
        GlobalMeanOptions,
    )
}
