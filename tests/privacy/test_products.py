from __future__ import annotations

import numpy as np

from tacit.privacy.products import row_products


def test_rows_without_columns_have_no_product_whatever_lies_behind_them() -> None:
    behind = np.full(8, np.nan, dtype=np.float32)
    for others in (behind[:0], np.lib.stride_tricks.as_strided(behind, (3, 0), (0, 0))):
        rows = np.lib.stride_tricks.as_strided(behind, (3, 0), (0, 0))
        assert row_products(rows, others).tolist() == [0, 0, 0]


def test_products_are_those_of_rows() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert row_products(rows, rows).tolist() == [5, 50]
    assert row_products(rows, rows[1]).tolist() == [14, 50]
