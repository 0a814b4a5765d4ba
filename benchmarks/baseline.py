"""The non-private baseline beside Surprise's SVD, on the same folds of MovieLens 100K.

The data are looked for in the folder `TACIT_DATA` names, or beside the project.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from peers.measure import Ratings
from peers.processes import RESULTS, Driver, DriverError, machine, progress
from tacit.errors import DataSetError
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import evaluate
from tacit.evaluation.setting import Setting
from tacit.evaluation.source import DataSource
from tacit.evaluation.splits import folds_of
from tacit.learning import MfAlsOptions, MfSgdOptions, Options

FOLDS, SEED = 10, 0

OURS: dict[str, Options] = {
    "tacit mf-als, offsets, rank 20, ridge 15": MfAlsOptions(rank=20, regularisation=15.0, offsets=True),
    "tacit mf-sgd, as Surprise's defaults": MfSgdOptions(
        rank=100, step=0.005, regularisation=0.02, epochs=20, offsets=True
    ),
    "tacit mf-sgd, as Surprise tuned": MfSgdOptions(rank=100, step=0.005, regularisation=0.1, epochs=80, offsets=True),
}
SURPRISE = {
    "Surprise SVD, its defaults": {},
    "Surprise SVD, tuned": {"n_factors": 100, "lr_all": 0.005, "reg_all": 0.1, "n_epochs": 80},
}


def main() -> int:
    """Print the error of each, over the same folds, and keep the figures."""
    os.environ.setdefault("TACIT_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    try:
        data = DataSource("ml-100k").load()
    except DataSetError as error:
        print(error)
        return 0
    found: dict[str, dict[str, object]] = {}
    for name, options in OURS.items():
        progress(name)
        setting = Setting("none", None, options, SEED, FOLDS)
        (row,) = evaluate(DataSource("ml-100k"), [setting], ResultStore(cache_folder() / "folds"), jobs=2, data=data)
        found[name] = {"errors": row.values("rmse"), "fit_seconds": round(row.to_document()["fit_seconds"], 3)}
    with tempfile.TemporaryDirectory() as folder:
        ratings = Ratings(
            data.users.codes, data.items.codes, data.ratings.astype(np.float32), data.shape, str(data.scale)
        )
        ratings.save(Path(folder))
        np.save(Path(folder) / "folds.npy", folds_of(len(data), FOLDS, SEED))
        for name, settings in SURPRISE.items():
            progress(name)
            try:
                said = Driver(name, "peers.surprise_svd", json.dumps(settings)).run(data=folder)
            except DriverError as error:
                progress(f"  ... left out: {error}")
                continue
            found[name] = {key: said[key] for key in ("errors", "fit_seconds", "versions")}
    for name, one in found.items():
        errors = np.array(one["errors"])
        print(f"{name:42} {errors.mean():.4f} +- {errors.std(ddof=1):.4f}   {one['fit_seconds']} s a fit")
    record = {"data": "ml-100k", "folds": FOLDS, "seed": SEED, "machine": machine(), "rmse": found}
    (RESULTS / "baseline.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
