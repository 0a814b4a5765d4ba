"""Products of rows that do not depend on BLAS, and are zero where rows have nothing to multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def row_products(rows: Floats, others: Floats) -> Floats:
    """Multiply every row by the row of `others` beside it, or by the only one.

    Without columns NumPy's einsum multiplies an empty sum by whatever lies behind the array: NaN, now and then.

    >>> row_products(np.ones((2, 3), dtype=np.float32), np.array([1, 2, 3], dtype=np.float32))
    array([6., 6.], dtype=float32)
    """
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.float32)
    return np.asarray(np.einsum("rf,f->r" if others.ndim == 1 else "rf,rf->r", rows, others))
