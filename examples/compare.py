"""Compare two mechanisms and the non-private baseline by cross-validation, on an invented world."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import evaluate
from tacit.evaluation.setting import grid
from tacit.evaluation.source import DataSource
from tacit.learning import MogMfOptions

if __name__ == "__main__":  # worker processes import this file again
    settings = list(grid(["bounded-laplace", "clamped-laplace", "none"], ["0.5", "2"], [MogMfOptions(rank=1)], folds=3))
    with tempfile.TemporaryDirectory() as folder:  # a folder that stays would be found again by the next run
        rows = evaluate(DataSource("world"), settings, ResultStore(Path(folder)), jobs=2)
    for row in rows:
        error, spread = row.mean("rmse"), row.deviation("rmse")
        print(f"{row.setting.mechanism:16} epsilon {row.setting.epsilon or '-':4} RMSE {error:.3f} +- {spread:.3f}")
