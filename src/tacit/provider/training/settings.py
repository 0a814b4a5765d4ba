"""How a service trains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What an operator decides about training."""

    threads: int | None = None
    """Of a training process; by default one less than there are cores, but one at least."""
    least_reports: int = 20
    """Items with fewer reports are not made public; a run where no item has so many fails."""
    most_heard: int = 500
    """How many reports of one device are learned from; more may be stored."""
    most_memory: int | None = None
    """How many bytes a run may take; None is what the machine has left."""
    retrain_every: float | None = None
    """After so many seconds, if anything changed; None is only when asked."""
    first_run_at: int = 100
    """How many reports there must be for the first run of a schedule to begin at once."""
