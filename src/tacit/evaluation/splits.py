"""Cross-validation: every rating is held out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def folds_of(ratings: int, folds: int, seed: int) -> NDArray[np.int64]:
    """Deal ratings out at random: return the fold that each is held out in, all of nearly the same size."""
    if ratings < folds:
        msg = f"{ratings} ratings are too few for {folds} folds; choose fewer folds, or give more ratings"
        raise InvalidInputError(msg)
    dealt = np.random.default_rng([seed, *b"folds"]).permutation(ratings)
    return np.asarray(dealt % folds, dtype=np.int64)
