"""Perturbing a whole file at once, as many devices would, one draw for each rating."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.device.ratings import TrueRatings, read_true_ratings
from tacit.errors import FileError
from tacit.privacy.report import POLICY_DOCUMENT_KEY, POLICY_KEY
from tacit.privacy.weights import operating_system_words
from tacit.tables import is_parquet, write_columns

if TYPE_CHECKING:
    from decimal import Decimal

    import numpy as np
    from numpy.typing import NDArray

    from tacit.privacy.policy import Policy


@dataclass(frozen=True)
class PerturbedFile:
    """What was written, and what it cost."""

    reports: int
    policy: str
    largest_user_total: Decimal


def perturb(ratings: TrueRatings, policy: Policy) -> NDArray[np.uint16]:
    """Draw a fresh symbol for every rating with the operating system's randomness."""
    return policy.channel.draw(ratings.ranks, operating_system_words(len(ratings.ranks)))


def perturb_file(source: str | Path, policy: Policy, target: str | Path, *, rounding: bool = False) -> PerturbedFile:
    """Read true ratings, write their reports.

    Every call draws afresh and therefore spends again: two outputs for the same
    ratings together cost twice the epsilon.
    """
    as_parquet = is_parquet(target)
    if Path(target).exists() and Path(target).samefile(source):
        raise FileError(f"{target} is the file of true ratings itself; write the reports to another")
    ratings = read_true_ratings(source, policy.scale, rounding=rounding)
    columns = {"user": ratings.users.decoded(), "item": ratings.items.decoded(), "symbol": perturb(ratings, policy)}
    if as_parquet:
        metadata = {POLICY_KEY: policy.id, POLICY_DOCUMENT_KEY: policy.to_json().decode()}
        write_columns(target, columns, metadata)
    else:
        write_columns(target, columns | {"policy": [policy.id] * len(ratings.ranks)}, {})
    return PerturbedFile(len(ratings.ranks), policy.id, policy.epsilon * ratings.ratings_of_busiest_user)
