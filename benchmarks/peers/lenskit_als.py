"""LensKit's explicit ALS: exact, on ratings less static offsets, in Rust."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from lenskit.als import BiasedMFScorer
from lenskit.data import from_interactions_df
from lenskit.parallel import initialize
from lenskit.training import TrainingOptions

from peers.measure import report_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from peers.measure import Fit, Ids, Job, Predict, Ratings


def prepare(ratings: Ratings, job: Job) -> Fit:
    """Build LensKit's own data set."""
    initialize(threads=job.threads, backend_threads=1)
    columns = {"user_id": ratings.users, "item_id": ratings.items, "rating": ratings.values}  # noqa: PD011 - an array
    table = pd.DataFrame(columns)
    data = from_interactions_df(table)

    def fit(iterations: int) -> Predict:
        scorer = BiasedMFScorer(embedding_size=job.rank, epochs=iterations)
        scorer.train(data, TrainingOptions(rng=0))

        def predict(users: Ids, items: Ids) -> NDArray[np.float32]:
            people, things = scorer.users.numbers(users), scorer.items.numbers(items)
            offsets = scorer.bias.global_bias + scorer.bias.user_biases[people] + scorer.bias.item_biases[things]
            products = np.vecdot(scorer.user_embeddings[people], scorer.item_embeddings[things])
            return np.asarray(offsets + products, dtype=np.float32)

        return predict

    return fit


if __name__ == "__main__":
    report_fit("lenskit", prepare)
