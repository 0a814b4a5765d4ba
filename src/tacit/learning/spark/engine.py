"""The Spark engine: the same kernels, on as many machines as a cluster has."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.learning import widths
from tacit.learning.kernels import kernel_name, padded
from tacit.learning.options import ChannelMfOptions
from tacit.learning.spark.broadcast import BroadcastFactors, BroadcastSweeper
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.joined import JoinedPlan
from tacit.learning.spark.posterior import SparkPosteriorSweeper, sums_of_rows
from tacit.learning.spark.summary import SparkSummary

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark import SparkContext

    from tacit.learning.engine import Sweeper
    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.matrix import Rows
    from tacit.learning.options import Options
    from tacit.learning.spark.layout import Layout
    from tacit.learning.spark.relay import Relay

    Floats = NDArray[np.float32]

# Factors of both sides up to this many bytes are sent to every worker, but at most that share of what the driver's Java
# may take, which has several copies of them on their way; larger ones stay where the cluster keeps them.
LARGEST_BROADCAST = 1 << 30
_SHARE_OF_JAVA = 1 / 8


class SparkEngine:
    """Reports laid out on a cluster, and up to which size factors are sent whole: unless said, as Java can bear."""

    name = "spark"

    def __init__(self, layout: Layout, largest_broadcast: int | None = None) -> None:
        """Ask the workers what they compute with."""
        self.layout = layout
        self.largest_broadcast = _largest_broadcast(layout.context) if largest_broadcast is None else largest_broadcast
        self.summary = SparkSummary(layout)
        self._threads = int(self._context.getConf().get("spark.task.cpus", "1"))
        self._found = _found_on(self._context)
        self._plans: set[str] = set()
        self._joined: JoinedPlan | None = None

    def prepare(self, options: Options) -> str:
        """Say how large the factors will be, and how they will travel."""
        self._plans.clear()
        size = _sent_at_once(options, self.summary.shape)
        told = f"factors take {size / 1e6:,.2f} MB"
        if self.plan(size) == "broadcast":
            return f"{told}, here and in every worker"
        if isinstance(options, ChannelMfOptions):
            return f"{told} and stay here; workers get the rows they need"
        return f"{told} and stay on the cluster; at the end they come here"

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge, components: int = 1) -> Sweeper:  # noqa: ARG002 - kernels do for any number
        """Start alternating sweeps from these factors."""
        plan = self.plan(pair.users.nbytes + pair.items.nbytes)
        self._plans.add(plan)
        if plan == "broadcast":
            return BroadcastSweeper(self.layout, BroadcastFactors(self._context, pair), mean, ridge, self._threads)
        return self._joined_plan().sweeper(pair, mean, ridge)

    def plan(self, size: int) -> str:
        """Say how factors of so many bytes travel: `broadcast` whole, or `joined` with the reports that need them."""
        return "broadcast" if size <= self.largest_broadcast else "joined"

    def _joined_plan(self) -> JoinedPlan:
        if self._joined is None:
            self._joined = JoinedPlan(self.layout, self._threads)
        return self._joined

    def _route(self, size: int) -> Relay | None:
        """Choose how rows of so many bytes get from the driver to chunks."""
        plan = self.plan(size)
        self._plans.add(plan)
        return None if plan == "broadcast" else self._joined_plan().relay

    def posterior_sweeper(self, table: Floats | None, weights: Floats, centre: float) -> SparkPosteriorSweeper:  # noqa: ARG002 - reports are symbols here
        """Read symbols through a table."""
        if table is None:
            raise ModelError("reports on Spark are symbols, and were to be read as plain numbers; use the engine local")
        return SparkPosteriorSweeper(self.layout, self._route, table, weights, self._threads)

    def row_sums(self, dense: Floats, *, by_item: bool) -> Floats:
        """Sum the rows of `dense` that each user or item has reports with."""
        return sums_of_rows(self.layout, self._route, dense, self._threads, by_item=by_item)

    def rated(self) -> Rows:
        """Gather which items each user reported on."""
        return self.summary.rated()

    def versions(self) -> dict[str, str]:
        """Name the kernel of the workers, Spark and its Java, and how factors travelled."""
        return self._found | {"plan": " and ".join(sorted(self._plans))}

    def close(self) -> None:
        """Let the cluster forget the reports, if it is still there."""
        with suppress(Exception):  # a cluster that is gone has forgotten them, and what was said of that says more
            if self._joined is not None:
                self._joined.close()
            self.layout.close()

    @property
    def _context(self) -> SparkContext:
        return self.layout.context


def engine_of(layout: Layout) -> SparkEngine:
    """Return the engine for a layout, which is forgotten if there is none."""
    try:
        return SparkEngine(layout)
    except BaseException:
        layout.close()
        raise


def _sent_at_once(options: Options, shape: tuple[int, int]) -> int:
    """Return the bytes that decide on a plan: factors of both sides, or what the widest sweep of `channel-mf` takes."""
    if not isinstance(options, ChannelMfOptions):
        return padded(np.zeros((1, widths.coordinates(options)), dtype=np.float32)).nbytes * sum(shape)
    held = widths.coordinates(options) + options.rank  # with how uncertain its factors are
    own = widths.coordinates(options) + widths.solved(options)  # with the centres of its priors
    (one, other), embedding = shape, widths.embedding_columns(options)
    return 4 * max(one * held + other * own, other * held + one * own, embedding * max(shape))


def _largest_broadcast(context: SparkContext) -> int:
    machine: Any = context._jvm  # noqa: SLF001 - there is no other way to ask
    return min(LARGEST_BROADCAST, int(_SHARE_OF_JAVA * machine.java.lang.Runtime.getRuntime().maxMemory()))


def _found_on(context: SparkContext) -> dict[str, str]:
    """Ask for the kernel of the workers, Spark and its Java; once, for the cluster may be gone when it is told."""
    machine: Any = context._jvm  # noqa: SLF001 - there is no other way to ask
    cores = context.defaultParallelism
    with failures_in_one_line():
        found = context.parallelize(range(cores), cores).map(_kernel_here).distinct().collect()
        java = str(machine.System.getProperty("java.version"))
    return {"kernel": " and ".join(sorted(found)), "spark": context.version, "java": java}


def _kernel_here(_: int) -> str:
    return kernel_name()
