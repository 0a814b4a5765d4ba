"""Threads of the linear algebra library: none beside the one that asks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def one_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread: for one person's equations, others cost many times what they give."""
    held: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return held


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg.lapack  # noqa: F401, PLC0415 - found only once it is loaded; a slow import

    return ThreadpoolController()
