"""What happened during a fit, iteration by iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Iteration:
    """One pass over all reports.

    `objective` is what the fit lowers; `likelihood` is the mean log-likelihood of a report under the noise
    model, where there is one. Both are taken at this iteration's factors and the mixture they were fitted with.
    """

    number: int  # from 1
    objective: float
    likelihood: float | None
    change: float  # of the user factors, relative to their size
    seconds: float
    weights: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class FitTrace:
    """The iterations of a fit, why it stopped, and what went wrong on the way."""

    iterations: tuple[Iteration, ...]
    stopped: str  # "converged", "iterations", "interrupted", "diverged" or "closed form"
    notes: tuple[str, ...] = ()

    @property
    def objective(self) -> float:
        """The last objective."""
        return self.iterations[-1].objective

    @property
    def seconds(self) -> float:
        """The time all iterations took."""
        return sum(iteration.seconds for iteration in self.iterations)

    def to_document(self) -> dict[str, Any]:
        """Write the trace as plain values, one list for each quantity."""
        fields = ("objective", "likelihood", "change", "seconds", "weights", "variances")
        columns = {name: [getattr(iteration, name) for iteration in self.iterations] for name in fields}
        return {"stopped": self.stopped, "notes": list(self.notes), **columns}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> FitTrace:
        """Read what `to_document` wrote."""
        columns = [document[name] for name in ("objective", "likelihood", "change", "seconds", "weights", "variances")]
        iterations = tuple(
            Iteration(number, objective, likelihood, change, seconds, tuple(weights), tuple(variances))
            for number, (objective, likelihood, change, seconds, weights, variances) in enumerate(
                zip(*columns, strict=True), start=1
            )
        )
        return cls(iterations, document["stopped"], tuple(document["notes"]))
