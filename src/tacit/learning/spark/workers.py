"""What Python workers do beside their tasks."""

from __future__ import annotations

import gc
import sys
from functools import cache


def settle() -> None:
    """Keep all that a worker has loaded out of hunts for garbage.

    Spark has every worker hunt through all of its objects after every task. With what NumPy, Arrow and their kind
    consist of, that takes longer than a small task does, and the next task waits for it.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - there only with the extra

    if TaskContext.get() is not None:  # nothing of the driver's is touched
        _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    """Do it again where more was loaded since."""
    gc.freeze()
