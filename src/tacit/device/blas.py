"""Threads of the linear algebra library: none beside the one that asks."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator


# The number of threads is the whole process's: whoever found it lowered by another would leave it so.
_TURN = RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS to one thread: for one person's equations, others cost many times what they give."""
    with _TURN, _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg.lapack  # noqa: F401, PLC0415 - found only once it is loaded; a slow import

    return ThreadpoolController()
