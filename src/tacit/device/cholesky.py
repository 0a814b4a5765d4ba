"""Cholesky factors of matrices that follow from published items, which may have come from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]


def lower_root(matrix: Reals, added: Reals) -> Reals:
    """Factor a matrix with something added on its diagonal; one that is not positive definite is refused."""
    from scipy.linalg.lapack import dpotrf  # noqa: PLC0415 - a slow import

    whole = matrix.copy(order="F")
    np.einsum("kk->k", whole)[:] += added
    root, failed = dpotrf(whole, lower=True, overwrite_a=True)
    if failed:
        raise ModelError(f"your ratings give {len(matrix)} equations that cannot be solved; the model is damaged")
    return np.asarray(root)
