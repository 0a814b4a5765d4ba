from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Floats: TypeAlias = NDArray[np.float32]

def builds() -> list[str]: ...
def half_sweep(
    build: str,
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    table: _Floats | None,
    fixed: _Floats,
    solved: _Floats,
    coordinates: int,
    ridge: _Floats,
    weights: list[float],
    variances: list[float],
    with_statistics: bool,
    threads: int,
    /,
) -> list[float]: ...
def posterior_sweep(
    build: str,
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    table: _Floats | None,
    weights: _Floats,
    fixed: _Floats,
    solved: _Floats,
    variances: _Floats,
    coordinates: int,
    precision: _Floats,
    centres: _Floats | None,
    fixed_variances: _Floats | None,
    threads: int,
    /,
) -> float: ...
def sgd_epoch(
    build: str,
    block_starts: NDArray[np.int64],
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    values: NDArray[Any],
    table: _Floats | None,
    user_factors: _Floats,
    item_factors: _Floats,
    rates: _Floats,
    side: int,
    threads: int,
    /,
) -> float: ...
def top_n(
    build: str,
    users: _Floats,
    items: _Floats,
    coordinates: int,
    rated_starts: NDArray[np.int64] | None,
    rated_columns: NDArray[np.int32] | None,
    found_items: NDArray[np.int32],
    found_scores: _Floats,
    threads: int,
    /,
) -> None: ...
def row_sums(
    build: str,
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    dense: _Floats,
    out: _Floats,
    threads: int,
    /,
) -> None: ...
