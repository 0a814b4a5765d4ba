"""implicit's ALS: another problem, with every missing rating a zero, but the speed people know.

Variant `cg` takes three steps of conjugate gradients a row, which is its default and not exact; `cholesky` is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import coo_matrix

from peers.measure import report_fit

if TYPE_CHECKING:
    from peers.measure import Fit, Job, Ratings


def prepare(ratings: Ratings, job: Job) -> Fit:
    """Make the sparse matrix, with the values as confidences."""
    matrix = coo_matrix((ratings.values, (ratings.users, ratings.items)), shape=ratings.shape).tocsr()

    def fit(iterations: int) -> None:
        model = AlternatingLeastSquares(
            factors=job.rank,
            iterations=iterations,
            use_cg=job.variant == "cg",
            num_threads=job.threads,
            random_state=0,
        )
        model.fit(matrix, show_progress=False)

    return fit


if __name__ == "__main__":
    report_fit("implicit", prepare)
