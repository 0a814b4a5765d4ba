"""The paper's model on MovieLens 100K: error on held-out true ratings at several epsilons, beside simpler methods.

Only training ratings are perturbed. The data are looked for in the folder `TACIT_DATA` names, or beside the project.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import Policy, RatingScale
from tacit.evaluation.pg_mf import run_pg_mf
from tacit.evaluation.pg_mf_devices import DeviceRatings
from tacit.learning import GlobalMeanOptions, MfSgdOptions, MogMfOptions, Options, ReportMatrix, fit
from tacit.privacy.continuous import draw_laplace_noise
from tacit.tables import read_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("TACIT_DATA", ROOT.parent / "shared" / "data")) / "ml-100k.parquet"
RESULTS = ROOT / "benchmarks" / "results" / "accuracy.json"
SCALE = RatingScale.parse("1:5:1")
EPSILONS = ("0.1", "0.5", "1", "2", "3")
FOLDS = 10

# Every column of the table: a name, the mechanism ("laplace" is simulated, without bounds), and the model.
METHODS: dict[str, tuple[str, Options]] = {
    "BLP, mixture, rank 1": ("bounded-laplace", MogMfOptions(rank=1)),
    "BLP, mixture, rank 3": ("bounded-laplace", MogMfOptions(rank=3)),
    "BLP, one Gaussian, rank 1": ("bounded-laplace", MogMfOptions(rank=1, components=1)),
    "Laplace, mixture, rank 1": ("laplace", MogMfOptions(rank=1)),
    "clamped Laplace, SGD, rank 1": ("clamped-laplace", MfSgdOptions(rank=1)),
    "ISGD: clamped Laplace, SGD, rank 3": ("clamped-laplace", MfSgdOptions()),
    "true mean": ("none", GlobalMeanOptions()),
}
# Its devices predict from their own true ratings, and its epsilon covers a person's whole profile, not one rating.
PG_MF = "PG-MF, rank 3 (another epsilon)"


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """True ratings, and the fold each one is held out in."""

    users: NDArray[Any]
    items: NDArray[Any]
    ratings: NDArray[np.float64]
    folds: NDArray[np.int64]


def load() -> Ratings:
    """Read MovieLens 100K and deal its ratings into folds."""
    user, item, rating = read_columns(DATA, ["user", "item", "rating"])
    ratings = rating.numbers()
    folds = np.random.default_rng(0).permutation(len(ratings)) % FOLDS
    return Ratings(user.ids().decoded(), item.ids().decoded(), ratings, folds)


def perturbed(data: Ratings, kept: NDArray[np.bool_], mechanism: str, epsilon: str, seed: int) -> ReportMatrix:
    """Simulate the reports of the ratings that are kept for training."""
    rng = np.random.default_rng([seed, 1])
    users, items, ratings = data.users[kept], data.items[kept], data.ratings[kept]
    if mechanism in ("laplace", "none"):
        noise = draw_laplace_noise(len(ratings), SCALE, float(epsilon), rng) if mechanism == "laplace" else 0.0
        return ReportMatrix.of_values(users, items, ratings + noise, SCALE)
    policy = Policy.make(mechanism, SCALE, epsilon)
    words = rng.integers(0, 2**64, len(ratings), dtype=np.uint64, endpoint=False)
    return ReportMatrix.of_symbols(users, items, policy.channel.draw(SCALE.ranks_of(ratings), words), policy)


def held_out_error(data: Ratings, fold: int, method: str, epsilon: str) -> float:
    """Learn from all folds but one, and return the error on that one's true ratings."""
    kept = data.folds != fold
    if method == PG_MF:
        predicted = pg_mf_predictions(data, kept, epsilon, fold)
    else:
        mechanism, options = METHODS[method]
        model = fit(perturbed(data, kept, mechanism, epsilon, fold), options, np.random.default_rng(fold))
        predicted = model.predict(data.users[~kept], data.items[~kept]).ratings
    return float(np.sqrt(np.mean((predicted - data.ratings[~kept]) ** 2)))


def pg_mf_predictions(data: Ratings, kept: NDArray[np.bool_], epsilon: str, seed: int) -> NDArray[np.float32]:
    """Run the protocol on the devices of all folds but one, and let them predict that one."""
    users, items = (np.unique(ids, return_inverse=True)[1].astype(np.int32) for ids in (data.users, data.items))
    shape = (int(users.max()) + 1, int(items.max()) + 1)
    ratings = DeviceRatings(SCALE, users[kept], items[kept], data.ratings[kept].astype(np.float32), shape)
    run = run_pg_mf(ratings, float(epsilon), rng=np.random.default_rng([seed, 2]))
    return np.asarray(run.predict(users[~kept], items[~kept]), dtype=np.float32)


def main() -> int:
    """Print one row for each method, one column for each epsilon, and keep the figures."""
    if not DATA.exists():
        print(f"{DATA} is not there; set TACIT_DATA to a folder that has it")
        return 0
    data, record = load(), {}
    print(f"held-out RMSE on MovieLens 100K, {FOLDS} folds{'':8}" + "".join(f"{epsilon:>16}" for epsilon in EPSILONS))
    for method in (*METHODS, PG_MF):
        errors = {e: [held_out_error(data, fold, method, e) for fold in range(FOLDS)] for e in EPSILONS}
        record[method] = {
            e: {"rmse": round(np.mean(x), 4), "sd": round(np.std(x, ddof=1), 4)} for e, x in errors.items()
        }
        cells = (f"{one['rmse']:8.3f} +- {one['sd']:.3f}" for one in record[method].values())
        print(f"{method:46}" + " ".join(cells), flush=True)
    RESULTS.write_text(
        json.dumps({"data": "ml-100k", "folds": FOLDS, "rmse": record}, indent=2) + "\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
