"""Surprise's SVD: offsets and factors by stochastic gradient steps; the error in every fold of a cross-validation."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from surprise import SVD, Dataset, Reader

from peers.measure import Ratings, say


def fold_errors(ratings: Ratings, folds: np.ndarray, settings: dict[str, float]) -> tuple[list[float], float]:
    """Learn from all folds but one, for each; return the errors, predictions cut off, and seconds a fit."""
    values = ratings.values  # noqa: PD011 - an array
    low, high = (float(part) for part in ratings.scale.split(":")[:2])
    reader, errors, seconds = Reader(rating_scale=(low, high)), [], 0.0
    for fold in range(int(folds.max()) + 1):
        kept = folds != fold
        table = pd.DataFrame({"user": ratings.users[kept], "item": ratings.items[kept], "rating": values[kept]})
        train = Dataset.load_from_df(table, reader).build_full_trainset()
        began = time.perf_counter()
        model = SVD(random_state=fold, **settings).fit(train)
        seconds += time.perf_counter() - began
        pairs = zip(ratings.users[~kept].tolist(), ratings.items[~kept].tolist(), strict=True)
        predicted = np.array([model.predict(user, item).est for user, item in pairs])
        errors.append(float(np.sqrt(np.mean((predicted - values[~kept]) ** 2))))
    return errors, seconds / len(errors)


def main() -> None:
    """Read ratings and folds, and print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--variant", default="{}", help="its settings as JSON")
    asked = parser.parse_args()
    errors, seconds = fold_errors(
        Ratings.load(asked.data), np.load(asked.data / "folds.npy"), json.loads(asked.variant)
    )
    say("scikit-surprise", errors=errors, fit_seconds=round(seconds, 3))


if __name__ == "__main__":
    main()
