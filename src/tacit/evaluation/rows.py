"""Result rows: the folds of a setting taken together, with everything needed to repeat them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.metrics import Metrics, default_threshold
from tacit.evaluation.run import run_tasks
from tacit.evaluation.task import Task, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tacit.evaluation.fold import FoldResult
    from tacit.evaluation.ratings import RatingData
    from tacit.evaluation.results import ResultStore
    from tacit.evaluation.run import Progress
    from tacit.evaluation.setting import Setting
    from tacit.evaluation.source import DataSource

MEASURES = tuple(field.name for field in fields(Metrics) if field.name != "users")


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A setting and the results of its folds."""

    setting: Setting
    data: str
    data_sha256: str
    scale: str
    threshold: float
    results: tuple[FoldResult, ...]

    def values(self, measure: str) -> list[float]:
        """Return a measure in every fold."""
        return [float(getattr(result.metrics, measure)) for result in self.results]

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over folds."""
        return float(np.mean(self.values(measure)))

    def deviation(self, measure: str) -> float:
        """Return the standard deviation of a measure over folds; 0 where one fold was run."""
        values = self.values(measure)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def to_document(self) -> dict[str, Any]:
        """Write the row as plain values; the figures are means over folds, those named `_sd` standard deviations."""
        measured = {name: self.mean(name) for name in MEASURES}
        spread = {f"{name}_sd": self.deviation(name) for name in MEASURES}
        n_test = round(float(np.mean([result.n_test for result in self.results])))
        n_train = self.results[0].n_train + self.results[0].n_test - n_test
        return {
            **self.setting.to_document(),
            **measured,
            **spread,
            "fit_seconds": float(np.mean([result.fit_seconds for result in self.results])),
            "n_train": n_train,
            "n_test": n_test,
            "folds_run": len(self.results),
            "data": self.data,
            "data_sha256": self.data_sha256,
            "scale": self.scale,
            "threshold": self.threshold,
            "versions": versions(),
        }


def evaluate(  # noqa: PLR0913 - what, on what, and how it is run
    source: DataSource,
    settings: Sequence[Setting],
    store: ResultStore,
    *,
    jobs: int = 1,
    threshold: float | None = None,
    data: RatingData | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> list[Row]:
    """Cross-validate every setting on the data, and return one row for each, in order.

    Args:
        source: Where the ratings come from.
        settings: What to evaluate.
        store: Where the results of folds are kept, and found again.
        jobs: How many processes to use.
        threshold: The rating from which an item is relevant; by default 60 % of the width above the low end.
        data: The ratings, if they were read before.
        watch: Called after every fold that was computed.
    """
    data = source.load() if data is None else data
    bar = default_threshold(data.scale) if threshold is None else threshold
    tasks = {
        setting: [Task(source, data.sha256, str(data.scale), setting, fold, bar) for fold in range(setting.folds)]
        for setting in settings
    }
    done = run_tasks([task for folds in tasks.values() for task in folds], store, jobs=jobs, watch=watch)
    return [
        Row(setting, data.name, data.sha256, str(data.scale), bar, tuple(done[task] for task in tasks[setting]))
        for setting in settings
    ]
