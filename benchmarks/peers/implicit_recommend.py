"""implicit's own batch recommendation: one call for everybody, which it cuts into blocks of a hundred itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import coo_matrix

from peers.measure import report_recommend

if TYPE_CHECKING:
    from peers.measure import Floats, Ids, Job, Ratings, Recommend


def prepare(ratings: Ratings, people: Floats, items: Floats, job: Job) -> Recommend:
    """Give implicit the factors and what everybody has rated."""
    matrix = coo_matrix((ratings.values, (ratings.users, ratings.items)), shape=ratings.shape).tocsr()
    model = AlternatingLeastSquares(factors=people.shape[1], num_threads=job.threads)
    model.user_factors, model.item_factors = people, items

    def recommend(count: int) -> Ids:
        everybody = np.arange(len(people))
        ids: Ids = model.recommend(everybody, matrix, N=count, filter_already_liked_items=True)[0]
        return ids

    return recommend


if __name__ == "__main__":
    report_recommend("implicit", prepare)
