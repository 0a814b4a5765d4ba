"""cmfrec's explicit ALS with a weight for every rating: the one exact peer that takes weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cmfrec import CMF
from scipy.sparse import coo_matrix

from peers.measure import report_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peers.measure import Fit, Ids, Job, Predict, Ratings


def prepare(ratings: Ratings, job: Job) -> Fit:
    """Make the sparse matrix and its weights; without offsets, which would only be more work."""
    matrix = coo_matrix((ratings.values, (ratings.users, ratings.items)), shape=ratings.shape)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(ratings.values)).astype(np.float32)

    def fit(iterations: int) -> Predict:
        model = CMF(
            k=job.rank,
            method="als",
            use_cg=False,
            niter=iterations,
            user_bias=False,
            item_bias=False,
            precompute_for_predictions=False,
            use_float=True,
            random_state=0,
            verbose=False,
            nthreads=job.threads,
        ).fit(matrix, W=weights)

        def predict(users: Ids, items: Ids) -> NDArray[np.float32]:
            return np.asarray(model.predict(users, items), dtype=np.float32)

        return predict

    return fit


if __name__ == "__main__":
    report_fit("cmfrec", prepare)
