"""The checksum of reports: the same for the same reports, in whatever order they came and wherever they lie."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tacit.learning.engine import ReportSummary

    Named = tuple[str, np.dtype[Any], int, Iterable[NDArray[Any]]]  # name, type, length and pieces of an array

_FORMAT = "tacit-matrix/1"


def checksum_of(summary: ReportSummary, rows: Iterable[Named]) -> str:
    """Return the SHA-256 of scale, policies and ids, and of the rows by user: their starts, columns and values.

    Arrays may come in pieces, so that nobody has to hold all reports at once.
    """
    header = [_FORMAT, str(summary.scale), *(policy.id for policy in summary.policies)]
    digest = hashlib.sha256("\n".join(header).encode())
    ids = summary.users.to_arrays("users") | summary.items.to_arrays("items")
    for name, kind, length, pieces in [*(whole(*named) for named in ids.items()), *rows]:
        portable = kind.newbyteorder("<")
        digest.update(f"\n{name} {portable.str} {length}\n".encode())
        for piece in pieces:
            digest.update(np.ascontiguousarray(piece, dtype=portable).data)
    return digest.hexdigest()


def whole(name: str, array: NDArray[Any]) -> Named:
    """Return an array in one piece."""
    return name, array.dtype, len(array), [array]
