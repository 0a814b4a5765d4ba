"""A verdict: a claim of the paper, what was measured, whether it holds, and why."""

from __future__ import annotations

from dataclasses import dataclass

HOLDS, ONLY_IF, NOT = "holds", "holds only if", "does not hold"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, judged."""

    claim: str
    figure: str
    verdict: str
    condition: str
    measured: str
    why: str
    readings: tuple[tuple[str, str], ...] = ()
    with_tacit: str = ""
    """How tacit fares on the same reports where the claim is about the paper's method; empty where it is not."""

    @property
    def words(self) -> str:
        """The verdict and its condition."""
        return f"{self.verdict} {self.condition}".strip()
