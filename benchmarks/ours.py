"""tacit's own driver: one EM iteration of the mixture model, or ten items for everybody, as `--variant` says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from peers.measure import report_fit, report_recommend
from tacit import Policy, RatingScale
from tacit.learning import MogMfOptions, ReportMatrix, fit
from tacit.learning.kernels import padded, top_n
from tacit.learning.matrix import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peers.measure import Fit, Floats, Ids, Job, Predict, Ratings, Recommend

COMPONENTS = 4
RIDGE = 0.1  # as LensKit's


def prepare_fit(ratings: Ratings, job: Job) -> Fit:
    """Make the matrix of reports; every iteration weighs every report anew, then solves both sides exactly.

    The symbols of randomized response stand for the ratings themselves: all libraries see the same numbers.
    """
    scale = RatingScale.parse(ratings.scale)
    policy = Policy.make("randomized-response", scale, "1")
    symbols = (ratings.values - np.float32(scale.low)).astype(np.uint8)  # whole steps from the low end
    matrix = ReportMatrix.of_symbols(ratings.users, ratings.items, symbols, policy)

    def fit_model(iterations: int) -> Predict:
        options = MogMfOptions(
            rank=job.rank, components=COMPONENTS, regularisation=RIDGE, iterations=iterations, tolerance=0.0
        )
        model = fit(matrix, options, np.random.default_rng(0), threads=job.threads)

        def predict(users: Ids, items: Ids) -> NDArray[np.float32]:
            return model.predict(users, items).ratings

        return predict

    return fit_model


def prepare_recommend(ratings: Ratings, people: Floats, items: Floats, job: Job) -> Recommend:
    """Lay out the factors and what everybody has rated as a model keeps them."""
    starts = np.searchsorted(ratings.users, np.arange(ratings.shape[0] + 1)).astype(np.int64)
    rated = Rows(starts, ratings.items, ratings.values)
    of_people, of_items = padded(people), padded(items)

    def recommend(count: int) -> Ids:
        return top_n(of_people, of_items, rated, count, threads=job.threads)[0]

    return recommend


if __name__ == "__main__":
    if "--variant=recommend" in sys.argv:
        report_recommend("tacit", prepare_recommend)
    else:
        report_fit("tacit", prepare_fit)
